package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// unservedMost bounds the wait of a caller while nodes are restarted one after the other.
const unservedMost = time.Second

// roll restarts each voter once the gate opens on the voter before, while a node without a vote
// holds one lease throughout and takes another lock over and over. roll returns the longest wait
// for this lock, and the error of the held lease.
func roll(t *testing.T, w *wire, voters []string, gate func(*Mesh, context.Context) error) (longest time.Duration, lost error) {
	t.Helper()
	nodes := make(map[string]*Mesh)
	for _, v := range voters {
		nodes[v] = w.join(v, voters, nil)
	}
	client := w.join("z", voters, nil)
	for _, m := range append(slices.Collect(maps.Values(nodes)), client) {
		if err := m.Settled(testwait.Within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	held, err := client.Lock(testwait.Within(t, time.Minute), "held throughout")
	check(t, err)
	stop, served := make(chan struct{}), make(chan time.Duration)
	go func() {
		longest := time.Duration(0)
		defer func() { served <- longest }()
		for {
			start := time.Now()
			l, err := client.Lock(testwait.Within(t, 5*time.Minute), "k")
			if err != nil {
				t.Error(err)
				return
			}
			longest = max(longest, time.Since(start))
			time.Sleep(20 * time.Millisecond)
			if err := l.Unlock(t.Context()); err != nil && !errors.Is(err, ErrLost) {
				t.Error(err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for _, v := range voters {
		w.leaves(nodes[v])
		nodes[v] = w.join(v, voters, nil)
		if err := gate(nodes[v], testwait.Within(t, time.Minute)); err != nil {
			t.Fatalf("%s: %v", v, err)
		}
	}
	close(stop)
	return <-served, held.Err()
}

func TestFault77EachNodeIsRestartedAsSoonAsItIsSettled(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	for _, n := range []int{3, 4, 5} {
		voters := []string{"a", "b", "c", "d", "e"}[:n]
		t.Run(fmt.Sprintf("%d voters by Settled", n), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				longest, lost := roll(t, w, voters, (*Mesh).Settled)
				t.Logf("the longest wait: %v", longest)
				if longest > unservedMost || lost != nil {
					t.Errorf("a waiter was unserved for %v, more than %v; the held lease: %v", longest, unservedMost, lost)
				}
			})
		})
		t.Run(fmt.Sprintf("%d voters by Ready, which is no gate", n), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				longest, lost := roll(t, w, voters, (*Mesh).Ready)
				t.Logf("the longest wait: %v; the held lease: %v", longest, lost)
				if longest <= unservedMost {
					t.Error("nobody noticed: this test can't tell a good gate from a bad one")
				}
			})
		})
	}
}

func TestSettledWaitsForAVoterToSpare(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		voters := []string{"a", "b", "c"}
		start := time.Now()
		a, b := w.join("a", voters, nil), w.join("b", voters, nil)
		z := w.join("z", voters, nil)
		check(t, a.Ready(testwait.Within(t, time.Minute)))
		for _, m := range []*Mesh{a, z} {
			err := m.Settled(testwait.Within(t, time.Minute))
			wantIs(t, err, ErrNoQuorum)
			wantIs(t, err, context.DeadlineExceeded)
			for _, words := range []string{"lockmesh: settled: ", "2 of 3 voters count: c ", "the loss of one more voter would leave no majority"} {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%q isn't in: %v", words, err)
				}
			}
		}
		c := w.join("c", voters, nil)
		check(t, c.Ready(testwait.Within(t, time.Minute)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Settled(ctx); err == nil || !strings.Contains(err.Error(), "this node's own voter doesn't count yet") {
			t.Errorf("just started: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Settled(ctx); err == nil || !strings.Contains(err.Error(), "not every reachable voter counts yet: c quiet for ") {
			t.Errorf("while c is quiet: %v", err)
		}
		for _, m := range []*Mesh{a, b, c, z} {
			check(t, m.Settled(testwait.Within(t, time.Minute)))
		}
		if took := time.Since(start); took < 2*DefaultMaxTTL {
			t.Errorf("settled after %v", took)
		}
	})
}

func TestSettledOfFiveDoesNotNeedTheOneThatIsBroken(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		voters := []string{"a", "b", "c", "d", "e"}
		a := w.join("a", voters, nil)
		for _, v := range voters[1:4] {
			w.join(v, voters, nil)
		}
		check(t, a.Settled(testwait.Within(t, time.Minute)))
	})
}

func TestSettledWhereNoVoterCanBeSpared(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		voters := []string{"a", "b"}
		a := w.join("a", voters, nil)
		wantIs(t, a.Settled(testwait.Within(t, time.Minute)), ErrNoQuorum)
		b := w.join("b", voters, nil)
		check(t, a.Settled(testwait.Within(t, time.Minute)))
		check(t, b.Settled(testwait.Within(t, time.Minute)))
		check(t, w.join("d", []string{"d"}, nil).Settled(testwait.Within(t, time.Minute)))
	})
}

// A voter may count in its own view, and still be out of reach of the others: then the others can't
// go on with this voter.
func TestSettledWaitsUntilTheOthersKnow(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		w.SilenceGossip()
		_, _, c := w.three()
		check(t, c.Settled(testwait.Within(t, time.Minute)))
		w.leaves(c)
		// c comes back at an address unknown to the others, so the others can't dial c's voter; c
		// reaches all.
		elsewhere := func(cfg *Config) { cfg.Bind = wireAddr("x") }
		c = w.join("c", []string{"a", "b", "c"}, elsewhere)
		err := c.Settled(testwait.Within(t, time.Minute))
		if err == nil || !strings.Contains(err.Error(), "3 of 3 voters count; not every other voter knows yet that this node's votes count: a, b") {
			t.Errorf("%v", err)
		}
		w.leaves(c)
		c = w.join("c", []string{"a", "b", "c"}, nil)
		check(t, c.Settled(testwait.Within(t, time.Minute)))
	})
}

// leaves has a node leave.
func (w *wire) leaves(m *Mesh) {
	w.t.Helper()
	check(w.t, m.Leave(testwait.Within(w.t, time.Minute)))
	w.meshes = slices.DeleteFunc(w.meshes, func(other *Mesh) bool { return other == m })
}

func TestSettledWhileTheElectorateChanges(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		check(t, w.nodes["a"].Settled(testwait.Within(t, time.Minute)))
		w.start("d", nil)
		w.start("e", nil)
		w.until("a", "a joint electorate", func(s ElectorateStatus) bool { return s.Joint })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.nodes["a"].Settled(ctx); err == nil || !strings.Contains(err.Error(), "the electorate is being changed") {
			t.Errorf("%v", err)
		}
		for _, m := range w.nodes {
			check(t, m.Settled(testwait.Within(t, time.Minute)))
		}
		if s := w.nodes["d"].Status().Electorate; s.Joint || len(s.Voters) != 5 {
			t.Errorf("settled with %v", s)
		}
	})
}

func TestSettledEndsWithTheMesh(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a := w.join("a", []string{"a", "b", "c"}, nil)
		done := make(chan error, 1)
		go func() { done <- a.Settled(t.Context()) }()
		synctest.Wait()
		check(t, a.Close())
		err := <-done
		wantIs(t, err, ErrClosed)
		if !strings.Contains(err.Error(), "lockmesh: settled: ") {
			t.Errorf("%v", err)
		}
		wantIs(t, a.Settled(t.Context()), ErrClosed)
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
