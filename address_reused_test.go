package lockmesh

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/register"
)

// The addresses of two lost voters are given to processes of another mesh. The survivors go on: no
// readiness is withdrawn, and a call that waits is served by the next mesh.
func TestAddressesOfLostVotersMayBeReused(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	for i, secret := range []bool{false, true} {
		for j, registers := range []bool{false, true} {
			if !sampled.Case(2*i+j, 3) {
				continue
			}
			inCountedBubble(t, func(t *testing.T, w *living) {
				right, wrong, m := NewSecret(), NewSecret(), new(register.Memory)
				with := expect(3, secretly(right, addrsOf("a", "b", "c", "d", "e", "n")), func(c *Config) {
					if registers {
						c.Register = m
					}
				})
				for _, name := range []string{"a", "b", "c"} {
					w.start(name, with)
				}
				w.start("n", func(c *Config) { with(c); nonVoting(c) })
				w.ready("a")
				w.ready("n")
				w.lock("b", "k")
				waits := later(func() (*Lease, error) { return w.nodes["a"].Lock(context.Background(), "k") })
				time.Sleep(time.Second)
				w.crash("b")
				w.crash("c")
				for name, former := range map[string]string{"x": "b", "y": "c"} {
					w.start(name, expect(1, func(c *Config) {
						c.Mesh, c.Peers, c.Bind = "another", nil, wireAddr(former)
						if secret {
							c.Secret, c.Insecure = wrong, false
						}
					}))
				}
				w.start("d", with)
				w.start("e", with)
				for range 100 {
					time.Sleep(time.Second)
					w.wantRefusal(false, "beside processes of another mesh", "a", "n")
				}
				r := <-waits
				if r.err != nil {
					t.Fatal(r.err)
				}
				w.unlock(r.lease)
			})
		}
	}
}

// A leaving voter stays for as long as its context allows, if the mesh would be lost without it:
// here the replacements are started twenty MaxTTL after a crash of another voter.
func TestALeavingVoterStaysAsItsContextAllows(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inCountedBubble(t, func(t *testing.T, w *living) {
		with := expect(3, registered(new(register.Memory)), func(c *Config) {
			c.MaxTTL, c.Peers = time.Second, addrsOf("a", "b", "c", "d", "e")
		})
		for _, name := range []string{"a", "b", "c"} {
			w.start(name, with)
		}
		w.ready("a")
		time.Sleep(10 * time.Second)
		w.crash("c")
		left := later(func() (*Lease, error) { return nil, w.nodes["a"].Leave(testwait.Within(t, 55*time.Second)) })
		time.Sleep(20 * time.Second)
		w.start("d", with)
		w.start("e", with)
		if r := <-left; r.err != nil {
			t.Error(r.err)
		}
		asked := time.Now()
		w.unlock(w.lock("b", "k"))
		if d := time.Since(asked); d > time.Second {
			t.Errorf("no lock was granted for %v", d)
		}
	})
}

// A process that most voters can't reach replaces no voter, and keeps none that leaves for long.
func TestALeavingVoterWaitsForNoProcessThatCantReplaceIt(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.born()
		w.CutAddrs(func(from, to string) bool {
			d := wireAddr("d")
			return (from == d || to == d) && from != wireAddr("a") && to != wireAddr("a")
		})
		w.start("d", expect(3))
		time.Sleep(2 * time.Minute)
		began := time.Now()
		if err := w.nodes["a"].Leave(testwait.Within(t, 5*time.Minute)); !errors.Is(err, ErrStillVoter) {
			t.Error(err)
		}
		if took := time.Since(began); took > 5*DefaultMaxTTL {
			t.Errorf("Leave took %v", took)
		}
	})
}
