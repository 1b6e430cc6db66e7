package gocronlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/lockmesh/lockmesh"
	gocronlock "github.com/lockmesh/lockmesh/contrib/gocron"
	"github.com/lockmesh/lockmesh/internal/adaptertest"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// tally counts the runs of each job, and the skipped runs.
type tally struct {
	mu   sync.Mutex
	ran  map[string][]int   // nodes, by job
	errs map[string][]error // of Lock, by job

	skipped chan struct{} // one for each skip, of any job
}

func newTally() *tally {
	return &tally{ran: map[string][]int{}, errs: map[string][]error{}, skipped: make(chan struct{}, 1000)}
}

func (y *tally) run(job string, node int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.ran[job] = append(y.ran[job], node)
}

// skips records the runs skipped by a scheduler.
func (y *tally) skips() gocron.JobOption {
	return gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, job string, err error) {
		y.mu.Lock()
		defer y.mu.Unlock()
		y.errs[job] = append(y.errs[job], err)
		y.skipped <- struct{}{}
	}))
}

func (y *tally) of(job string) (ran, skipped int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.ran[job]), len(y.errs[job])
}

// all returns the nodes that have run a job, and the errors of the others. Other jobs may still be
// under way.
func (y *tally) all(job string) (ran []int, errs []error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return slices.Clone(y.ran[job]), slices.Clone(y.errs[job])
}

func lockers(nodes []*lockmesh.Mesh, opts ...gocronlock.LockerOption) func(int) gocron.SchedulerOption {
	return func(i int) gocron.SchedulerOption {
		return gocron.WithDistributedLocker(gocronlock.NewLocker(nodes[i], opts...))
	}
}

// Every job is quick, so only the splay keeps a second scheduler from finding the job's lock free.
func TestEachQuickJobIsRunOnceBySomeScheduler(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	c := newCron(t, 3, lockers(nodes, gocronlock.WithSplay(testwait.Patience)))
	y := newTally()
	const jobs = 20
	for j := range jobs {
		name := fmt.Sprint("job ", j)
		c.every(name, func(_ context.Context, node int) { y.run(name, node) }, y.skips())
	}
	c.start()
	c.tick()
	for j := range jobs {
		name := fmt.Sprint("job ", j)
		testwait.Until(t, name+" is settled", func() bool {
			ran, skipped := y.of(name)
			return ran+skipped >= 3
		})
		ran, errs := y.all(name)
		if len(ran) != 1 || len(errs) != 2 {
			t.Errorf("%s was run by %v and skipped %d times", name, ran, len(errs))
		}
		for _, err := range errs {
			if !errors.Is(err, lockmesh.ErrHeld) {
				t.Errorf("%s was skipped for %v", name, err)
			}
		}
	}
}

// The control: without a splay a quick job's lock is free again before the next scheduler comes.
func TestWithoutASplayAQuickJobMayBeRunTwice(t *testing.T) {
	nodes := adaptertest.Start(t, "a")
	l := gocronlock.NewLocker(nodes[0], gocronlock.WithSplay(0))
	for range 2 {
		lock, err := l.Lock(testwait.Within(t, testwait.Patience), "quick")
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A job holds its lock while running, and runs again at each tick, on any node.
func TestEachRunOfALongJobIsOneSchedulers(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	c := newCron(t, 3, lockers(nodes, gocronlock.WithSplay(0)))
	y := newTally()
	const ticks = 10
	var running atomic.Int32
	c.every("nightly", func(ctx context.Context, node int) {
		if running.Add(1) != 1 {
			t.Error("two run at a time")
		}
		defer running.Add(-1)
		y.run("nightly", node)
		for range 2 { // until the other schedulers have given up
			select {
			case <-y.skipped:
			case <-ctx.Done():
			}
		}
	}, y.skips())
	c.start()
	for n := 1; n <= ticks; n++ {
		c.tick()
		testwait.Until(t, "the tick is settled", func() bool {
			ran, skipped := y.of("nightly")
			return ran == n && skipped == 2*n && running.Load() == 0
		})
		testwait.Until(t, "the lock is free", func() bool {
			lease, err := nodes[0].TryLock(testwait.Within(t, testwait.Patience), "gocron/nightly")
			return err == nil && lease.Unlock(t.Context()) == nil
		})
	}
}

func TestALostLeaseReachesTheJobAndAnotherRunsTheNext(t *testing.T) {
	nodes := adaptertest.Start(t, "a", "b", "c")
	lost := make(chan error, 1)
	first := gocronlock.NewLocker(nodes[0], gocronlock.WithSplay(0), gocronlock.WithLost(func(job string, err error) {
		if job != "nightly" {
			t.Errorf("lost %q", job)
		}
		lost <- err
	}))
	began, ended, free := make(chan uint64, 1), make(chan error, 1), make(chan struct{})
	c := newCron(t, 1, func(int) gocron.SchedulerOption { return gocron.WithDistributedLocker(first) })
	y := newTally()
	c.every("nightly", func(ctx context.Context, _ int) {
		began <- first.Lease("nightly").Token()
		ctx, done := first.Guard(ctx, "nightly")
		defer done()
		<-ctx.Done()
		ended <- context.Cause(ctx)
		<-free
	}, y.skips())
	c.start()
	c.tick()
	token := <-began
	if err := nodes[0].Close(); err != nil {
		t.Error(err)
	}
	for what, got := range map[string]error{"the job's context": <-ended, "WithLost": <-lost} {
		if !errors.Is(got, lockmesh.ErrLost) {
			t.Errorf("%s says %v", what, got)
		}
	}

	// While the job without its lock still runs, the process of the job doesn't start another run.
	c.tick()
	testwait.Until(t, "the next run is skipped", func() bool {
		_, skipped := y.of("nightly")
		return skipped == 1
	})
	if _, errs := y.all("nightly"); !errors.Is(errs[0], gocronlock.ErrRunning) {
		t.Errorf("skipped for %v", errs[0])
	}

	// Another process does, as soon as the lease has expired at the voters.
	tokens := make(chan uint64, 1)
	second := gocronlock.NewLocker(nodes[1])
	other := newCron(t, 1, func(int) gocron.SchedulerOption { return gocron.WithDistributedLocker(second) })
	other.every("nightly", func(context.Context, int) {
		select {
		case tokens <- second.Lease("nightly").Token():
		default:
		}
	})
	other.start()
	var next uint64
	testwait.Until(t, "another scheduler runs it", func() bool {
		other.tick()
		select {
		case next = <-tokens:
			return true
		default:
			return false
		}
	})
	if next <= token {
		t.Errorf("token %d follows %d", next, token)
	}
	close(free)
}

func TestErrorsOfALocker(t *testing.T) {
	nodes := adaptertest.Start(t, "a")
	l := gocronlock.NewLocker(nodes[0], gocronlock.WithPrefix("cron:"), gocronlock.WithSplay(testwait.Patience))
	lock, err := l.Lock(testwait.Within(t, testwait.Patience), "job")
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Lease("job").Key(); got != "cron:job" {
		t.Errorf("the key is %q", got)
	}
	for range 2 { // gocron unlocks once, but a second time must do no harm
		if err := lock.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := l.Lock(testwait.Within(t, testwait.Patience), "job"); !errors.Is(err, gocronlock.ErrRunning) {
		t.Errorf("during the splay: %v", err)
	}
	if _, err := l.Lock(testwait.Within(t, testwait.Patience), "a\nb"); !errors.Is(err, lockmesh.ErrKey) {
		t.Errorf("a name that is no key: %v", err)
	}
	if l.Lease("other") != nil {
		t.Error("a job that doesn't run has a lease")
	}
	ctx, done := l.Guard(t.Context(), "other")
	defer done()
	if ctx.Err() == nil {
		t.Error("a job that doesn't run may go on")
	}
	if err := nodes[0].Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Lock(testwait.Within(t, testwait.Patience), "another"); !errors.Is(err, lockmesh.ErrClosed) {
		t.Errorf("after the mesh has ended: %v", err)
	}
}
