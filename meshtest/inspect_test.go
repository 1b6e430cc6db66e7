package meshtest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

// A holder, a voter itself, crashes with the vote of a single other voter, and before this voter
// has learned of the grant. No live voter can tell then whether the key is held, and no other node
// gets the key: an inspection shows a holder, marked as unsure. (Met with clients of Redis: an
// agent was killed milliseconds after a grant, and the key looked free.)
func TestALeaseOfACrashedNodeThatNoVoterHeardOfIsSeen(t *testing.T) {
	for _, name := range []string{"b", "c"} {
		t.Run("from "+name, func(t *testing.T) {
			meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
				m.Cut("a", "c")
				held, err := m.Node("a").TryLock(t.Context(), "k", lockmesh.WithValue([]byte("v")))
				if err != nil {
					t.Fatal(err)
				}
				deadline := held.Deadline()
				m.Cut("a", "b") // the message about the grant is lost
				m.Crash("a")
				info, err := m.Node(name).Inspect(t.Context(), "k")
				if err != nil || len(info.Holders) != 1 || len(info.Waiters) != 0 {
					t.Fatalf("%+v, %v", info, err)
				}
				if h := info.Holders[0]; !h.Unsure || h.Node != "a" || string(h.Value) != "v" || h.Mode != lockmesh.ModeExclusive || h.Left <= 0 || h.Token > held.Token() {
					t.Errorf("%+v", h)
				}
				mustBeHeld(t, lock(t, m.Node(name))) // released at the end of the test
				if late := time.Since(deadline); late < 0 || late > ttl {
					t.Errorf("the next holder came %v after the deadline", late)
				}
				if info, err = m.Node(name).Inspect(t.Context(), "k"); err != nil || len(info.Holders) != 1 || info.Holders[0].Node != name {
					t.Errorf("%+v, %v", info, err)
				}
			}, meshtest.WithLatency(10*time.Millisecond))
		})
	}
}

// The owner of a lease is cut off, or crashes, before any other voter has heard of the grant. The
// voter with the other vote can't tell the lease from a request that was given up, so a watch that
// begins now waits with EventSynced until the lease must be over: EventSynced without the lease
// says that the key is free, and Observe that there is no leader.
func TestAWatchIsNotSyncedWithoutALeaseThatNoVoterHeardOf(t *testing.T) {
	synced := func(t *testing.T, n *lockmesh.Mesh) {
		watch, err := n.Watch(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		for e := range watch.Events() {
			switch e.Kind {
			case lockmesh.EventGranted:
				t.Fatalf("a grant of which no voter can know: %v", e)
			case lockmesh.EventSynced:
				return
			}
		}
		t.Fatal(watch.Err())
	}
	observed := func(t *testing.T, n *lockmesh.Mesh) {
		for leader, err := range n.Election("k").Observe(t.Context()) {
			if err != nil || !leader.None {
				t.Fatalf("%v, %v", leader, err)
			}
			return
		}
	}
	for _, crash := range []bool{false, true} {
		for _, name := range []string{"b", "c"} {
			for call, wait := range map[string]func(*testing.T, *lockmesh.Mesh){"Watch": synced, "Observe": observed} {
				t.Run(fmt.Sprintf("%s at %s, crash %v", call, name, crash), func(t *testing.T) {
					meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
						m.Cut("a", "c")
						led, err := m.Node("a").Election("k").Campaign(t.Context(), []byte("v"))
						if err != nil {
							t.Fatal(err)
						}
						deadline := led.Deadline()
						m.Cut("a", "b") // the message about the grant is lost
						if crash {
							m.Crash("a")
						}
						wait(t, m.Node(name))
						if late := time.Since(deadline); late < 0 || late > ttl/2 {
							t.Errorf("%s says that the key is free %v after the lease's deadline", call, late)
						}
					}, meshtest.WithLatency(10*time.Millisecond))
				})
			}
		}
	}
}

// A voter is down, and d, which can't reach another voter, waits with the vote of the third. No
// answer ever rules out that the voter that is down has voted for d as well; but d is in touch with
// the third voter, which would know of a grant. So a watch doesn't wait for the end of d's call.
func TestAWatchIsSyncedBesideARequestThatWaitsOn(t *testing.T) {
	meshtest.Run(t, 4, func(t *testing.T, m *meshtest.Mesh) {
		m.Crash("a")
		m.Cut("d", "c")
		m.Cut("c", "d")
		go func() { _, _ = m.Node("d").Lock(t.Context(), "k") }()
		time.Sleep(time.Second)
		watch, err := m.Node("c").Watch(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		tooLate := time.After(5 * time.Minute)
		for {
			select {
			case e := <-watch.Events():
				switch e.Kind {
				case lockmesh.EventGranted:
					t.Fatalf("d can't hold the key: %v", e)
				case lockmesh.EventSynced:
					return
				}
			case <-tooLate:
				t.Fatal("not Synced after five minutes")
			}
		}
	}, meshtest.WithVoters(3), meshtest.WithLatency(10*time.Millisecond))
}

// A request that has been open for too long to be a lease doesn't speak for another request: a
// later watch of the same prefix isn't synced without a lease that lasts.
func TestAWatchIsNotSyncedWithoutALeaseThoughAnEarlierRequestWasNone(t *testing.T) {
	meshtest.Run(t, 5, func(t *testing.T, m *meshtest.Mesh) {
		watch := func() *lockmesh.Watch {
			t.Helper()
			w, err := m.Node("c").WatchPrefix(t.Context(), "k/")
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		synced := func(w *lockmesh.Watch) {
			t.Helper()
			for e := range w.Events() {
				if e.Kind == lockmesh.EventSynced {
					return
				}
			}
			t.Fatal(w.Err())
		}
		m.Crash("a")
		m.Cut("d", "c")
		m.Cut("c", "d")
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = m.Node("d").Lock(ctx, "k/1") }()
		time.Sleep(time.Second)
		first := watch()
		synced(first)
		go func() {
			for range first.Events() {
			}
		}()
		cancel()
		time.Sleep(10 * time.Minute)
		l, err := m.Node("e").Lock(t.Context(), "k/2")
		if err != nil {
			t.Fatal(err)
		}
		m.Cut("e", "b")
		m.Cut("e", "c")
		synced(watch())
		if err := l.Err(); err == nil {
			t.Errorf("synced %v before the end of a lease that isn't told", time.Until(l.Deadline()))
		}
	}, meshtest.WithVoters(3), meshtest.WithLatency(10*time.Millisecond))
}

// The vote of b, the only answer about a, leaves open whether a leads: in one case a leads and its
// message about the grant is lost, in the other a has never heard of b's vote. Leader marks both.
func TestLeaderMarksALeaderOfWhichNoVoterHasHeard(t *testing.T) {
	for name, campaign := range map[string]func(t *testing.T, m *meshtest.Mesh){
		"a leads": func(t *testing.T, m *meshtest.Mesh) {
			m.Cut("a", "c")
			if _, err := m.Node("a").Election("e").Campaign(t.Context(), []byte("v")); err != nil {
				t.Fatal(err)
			}
		},
		"a stands": func(t *testing.T, m *meshtest.Mesh) {
			m.Cut("a", "c")
			m.Cut("b", "a")
			go func() { _, _ = m.Node("a").Election("e").Campaign(t.Context(), []byte("v")) }()
			time.Sleep(100 * time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			meshtest.Run(t, 3, func(t *testing.T, m *meshtest.Mesh) {
				election := m.Node("b").Election("e")
				led, err := m.Node("a").Election("e").Campaign(t.Context(), []byte("v"))
				if err != nil {
					t.Fatal(err)
				}
				if got, err := election.Leader(t.Context()); err != nil || got.Node != "a" || got.Unsure {
					t.Errorf("of a, which leads for sure, Leader says %+v, %v", got, err)
				}
				if err := led.Resign(t.Context()); err != nil {
					t.Fatal(err)
				}
				campaign(t, m)
				m.Cut("a", "b")
				got, err := election.Leader(t.Context())
				if err != nil || got.Node != "a" || !got.Unsure || string(got.Value) != "v" || !strings.HasPrefix(got.String(), "a may lead") {
					t.Errorf("%+v (%v), %v", got, got, err)
				}
			}, meshtest.WithLatency(10*time.Millisecond))
		})
	}
}
