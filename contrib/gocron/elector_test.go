package gocronlock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockmesh/lockmesh"
	gocronlock "github.com/lockmesh/lockmesh/contrib/gocron"
	"github.com/lockmesh/lockmesh/internal/adaptertest"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

const key = "billing/cron"

// electors returns an elector for each node.
func electors(t *testing.T, nodes []*lockmesh.Mesh) []*gocronlock.Elector {
	t.Helper()
	var all []*gocronlock.Elector
	for _, node := range nodes {
		e := gocronlock.NewElector(node, key)
		t.Cleanup(func() { _ = e.Close(context.Background()) })
		all = append(all, e)
	}
	return all
}

// leader waits for a leader, and returns the leader's number.
func leader(t *testing.T, all []*gocronlock.Elector) int {
	t.Helper()
	found := -1
	testwait.Until(t, "there is a leader", func() bool {
		found = slices.IndexFunc(all, func(e *gocronlock.Elector) bool { return e.IsLeader(t.Context()) == nil })
		return found >= 0
	})
	return found
}

func TestOnlyTheLeaderRunsJobsAndItsDeathHandsOver(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	all := electors(t, nodes)
	c := newCron(t, 3, func(i int) gocron.SchedulerOption { return gocron.WithDistributedElector(all[i]) })
	var mu sync.Mutex
	var ran []int
	c.every("report", func(_ context.Context, node int) {
		mu.Lock()
		defer mu.Unlock()
		ran = append(ran, node)
	})
	runs := func() []int {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(ran)
	}
	c.start()

	first := leader(t, all)
	for n := 1; n <= 5; n++ {
		c.tick()
		c.scheduled()
		testwait.Until(t, "the leader has run the job", func() bool { return len(runs()) >= n })
	}
	token := all[first].Lease().Token()

	if err := nodes[first].Close(); err != nil {
		t.Error(err)
	}
	if err := all[first].IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || !errors.Is(err, lockmesh.ErrLost) {
		t.Errorf("right after its death the leader says %v", err)
	}
	second := leader(t, all)
	if next := all[second].Lease().Token(); next <= token {
		t.Errorf("token %d follows %d", next, token)
	}
	for n := 6; n <= 10; n++ {
		c.tick()
		c.scheduled()
		testwait.Until(t, "the next leader has run the job", func() bool { return len(runs()) >= n })
	}
	want := append(slices.Repeat([]int{first}, 5), slices.Repeat([]int{second}, 5)...)
	if got := runs(); !slices.Equal(got, want) {
		t.Errorf("the job was run by %v instead of %v", got, want)
	}
}

func TestALeaderWithoutAMajorityStopsByItself(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	e := electors(t, nodes[:1])
	leader(t, e)
	ctx, done := e[0].Guard(t.Context())
	defer done()
	for _, node := range nodes[1:] {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-ctx.Done():
	case <-testwait.Within(t, testwait.Patience).Done():
		t.Fatal("a job that runs isn't told")
	}
	if cause := context.Cause(ctx); !errors.Is(cause, lockmesh.ErrLost) {
		t.Errorf("the job is told %v", cause)
	}
	if err := e[0].IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || !errors.Is(err, lockmesh.ErrLost) {
		t.Errorf("the leader says %v", err)
	}
	if e[0].Lease() != nil {
		t.Error("a lost lease is shown")
	}
}

func TestALeaderThatClosesHandsOverAtOnce(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	all := electors(t, nodes)
	first := leader(t, all)
	for range 2 {
		if err := all[first].Close(testwait.Within(t, testwait.Patience)); err != nil {
			t.Error(err)
		}
	}
	if err := all[first].IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) {
		t.Errorf("after Close: %v", err)
	}
	if second := leader(t, all); second == first {
		t.Error("it leads again")
	}
}

func TestAnElectorThatCantBeElectedSaysWhy(t *testing.T) {
	nodes := adaptertest.Start(t, "a")
	e := gocronlock.NewElector(nodes[0], "")
	defer e.Close(t.Context())
	testwait.Until(t, "the key is refused", func() bool { return errors.Is(e.IsLeader(t.Context()), lockmesh.ErrKey) })
	ctx, done := e.Guard(t.Context())
	defer done()
	if !errors.Is(context.Cause(ctx), gocronlock.ErrNotLeader) {
		t.Errorf("a job may go on: %v", context.Cause(ctx))
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.IsLeader(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}

	other := gocronlock.NewElector(nodes[0], key)
	defer other.Close(t.Context())
	leader(t, []*gocronlock.Elector{other})
	if err := nodes[0].Close(); err != nil {
		t.Error(err)
	}
	testwait.Until(t, "it says that the mesh is closed", func() bool { return errors.Is(other.IsLeader(t.Context()), lockmesh.ErrClosed) })
}
