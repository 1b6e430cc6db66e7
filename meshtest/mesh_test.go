package meshtest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/meshtest"
)

const ttl = lockmesh.DefaultMaxTTL

func lock(t *testing.T, n *lockmesh.Mesh) *lockmesh.Lease {
	t.Helper()
	return lockKey(t, n, "k")
}

func lockKey(t *testing.T, n *lockmesh.Mesh, key string) *lockmesh.Lease {
	t.Helper()
	return (<-lockAsync(t, n, key)).get(t)
}

// lockResult is the outcome of a Lock.
type lockResult struct {
	lease *lockmesh.Lease
	err   error
}

func (a lockResult) get(t *testing.T) *lockmesh.Lease {
	t.Helper()
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a.lease
}

// lockAsync locks in a goroutine of its own, for ten minutes at most: simulated time never ends by
// itself.
func lockAsync(t *testing.T, n *lockmesh.Mesh, key string) <-chan lockResult {
	t.Helper()
	result := make(chan lockResult, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		lease, err := n.Lock(ctx, key)
		result <- lockResult{lease, err}
	}()
	return result
}

// tryLock returns the outcome of a TryLock; a lease is released.
func tryLock(t *testing.T, n *lockmesh.Mesh) error {
	t.Helper()
	lease, err := n.TryLock(t.Context(), "k")
	if err != nil {
		return err
	}
	return lease.Unlock(t.Context())
}

func wantIs(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("%v is not %v", err, target)
		}
	}
}

func mustBeHeld(t *testing.T, lease *lockmesh.Lease) {
	t.Helper()
	if err := lease.Err(); err != nil {
		t.Error(err)
	}
}

func mustHaveLargerToken(t *testing.T, next, than *lockmesh.Lease) {
	t.Helper()
	if next.Token() <= than.Token() {
		t.Errorf("token %d follows %d", next.Token(), than.Token())
	}
}

func TestTheFirstLockTakesTheQuietTimeAndNoRealTime(t *testing.T) {
	meshtest.Run(t, 1, func(t *testing.T, m *meshtest.Mesh) {
		// The clock of a bubble starts at midnight.
		if took := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); took < ttl || took > ttl+2*time.Second {
			t.Errorf("ready after %v", took)
		}
		mustBeHeld(t, lock(t, m.Node("a")))
	})
}

func TestManyGoroutinesOnAllNodesTakeTurns(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		var work sync.WaitGroup
		var inside atomic.Int32
		var last uint64 // without a mutex: the mesh's lock must be enough
		for i := range 30 {
			work.Go(func() {
				err := m.Nodes()[i%3].Do(t.Context(), "k", func(_ context.Context, l *lockmesh.Lease) error {
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d hold it", n)
					}
					time.Sleep(time.Second)
					if l.Token() <= last {
						t.Errorf("token %d follows %d", l.Token(), last)
					}
					last = l.Token()
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		work.Wait()
	})
}

func TestNodesThatDontVoteTakeLocksAndAreNotMissed(t *testing.T) {
	meshtest.Run(t, 5, func(t *testing.T, m *meshtest.Mesh) {
		first := lock(t, m.Node("worker-1"))
		m.Crash("worker-2")
		if e := m.Node("v1").Status().Electorate; len(e.Voters) != 3 || e.Counting != 3 {
			t.Errorf("%+v", e)
		}
		mustBeHeld(t, first)
		m.Crash("worker-1")
		mustHaveLargerToken(t, lock(t, m.Node("v2")), first)
	}, meshtest.WithNames("v1", "v2", "v3", "worker-1", "worker-2"), meshtest.WithVoters(3))
}

func TestAMessageTravelsForTheLatency(t *testing.T) {
	const latency = 20 * time.Millisecond
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		for range 5 {
			began := time.Now()
			lease := lock(t, m.Node("b"))
			if took := time.Since(began); took != 2*latency && took != 4*latency {
				t.Errorf("a free lock took %v; it takes a round trip, or two to agree on a token", took)
			}
			if err := lease.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
		lease := lock(t, m.Node("a"))
		time.Sleep(time.Minute)
		mustBeHeld(t, lease)
	}, meshtest.WithLatency(latency))
}

func TestConfigureIsAskedBeforeEachStart(t *testing.T) {
	var started []string
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		m.Restart("c")
		m.Ready()
		if want := []string{"a", "b", "c", "c"}; !slices.Equal(started, want) {
			t.Errorf("%v, want %v", started, want)
		}
		lease := lock(t, m.Node("a"))
		m.Crash("a")
		began := time.Now()
		mustHaveLargerToken(t, lock(t, m.Node("b")), lease)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v, and a's TTL is a second", took)
		}
	}, meshtest.WithMaxTTL(5*time.Second), meshtest.WithConfig(func(c *lockmesh.Config) {
		started = append(started, c.Name)
		c.TTL = time.Second
		c.Secret = []byte("sixteen or more bytes")
	}))
}

func TestStatusShowsTheMembers(t *testing.T) {
	meshtest.Run(t, 5, func(t *testing.T, m *meshtest.Mesh) {
		m.Crash("b")
		m.Pause("c")
		m.Cut("d", "a")
		if err := m.Node("e").Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl)
		var got []string
		for _, member := range m.Node("a").Status().Members {
			got = append(got, member.Name+" "+member.State)
		}
		if want := []string{"a alive", "b failed", "c failed", "d failed", "e left"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		for _, v := range m.Node("a").Status().Electorate.Voters {
			if v.Name != "a" && v.State != lockmesh.VoterUnreachable {
				t.Errorf("%+v", v)
			}
		}
		m.Resume("c")
		m.Restart("b")
		m.Restart("e")
		m.Heal()
		m.Ready()
	})
}

func TestANodeThatHasLeftByItselfIsNotWaitedFor(t *testing.T) {
	meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
		if err := m.Node("a").Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.Ready()
		m.Crash("a") // has nothing left to end
		_, err := m.Node("a").Lock(t.Context(), "k")
		wantIs(t, err, lockmesh.ErrClosed)
		mustBeHeld(t, lock(t, m.Restart("a")))
	})
}

func TestABubbleMayBeMadeByHand(t *testing.T) {
	meshtest.Run(t, 1, func(t *testing.T, first *meshtest.Mesh) {
		second := meshtest.New(t, 1) // a separate mesh, in the same bubble
		second.Ready()
		mustBeHeld(t, lock(t, first.Node("a")))
		mustBeHeld(t, lock(t, second.Node("a")))
	})
}

func TestOutsideOfABubbleTimeIsReal(t *testing.T) {
	sampled.Waits(t)
	m := meshtest.New(t, 3, meshtest.WithMaxTTL(300*time.Millisecond))
	m.Ready()
	first := lock(t, m.Node("a"))
	m.Pause("a")
	second := lock(t, m.Node("b"))
	mustHaveLargerToken(t, second, first)
	m.Resume("a")
	wantIs(t, first.Err(), lockmesh.ErrLost)
	m.Restart("c")
	m.Crash("b")
	mustHaveLargerToken(t, lock(t, m.Node("a")), second)
}

func TestManyNodesHaveNamesAndAddresses(t *testing.T) {
	meshtest.Run(t, 30, func(t *testing.T, m *meshtest.Mesh) {
		var names []string
		addrs := make(map[string]bool)
		for _, n := range m.Nodes() {
			names = append(names, n.Name())
			addrs[n.Addr()] = true
		}
		if got := strings.Join(names, " "); got != "a b c d e f g h i j k l m n o p q r s t u v w x y z aa ab ac ad" || len(addrs) != 30 {
			t.Errorf("%s at %d addresses", got, len(addrs))
		}
		mustBeHeld(t, lock(t, m.Node("ad")))
	}, meshtest.WithVoters(3))
}
