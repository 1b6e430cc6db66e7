package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/register"
)

// addrsOf returns the addresses of nodes.
func addrsOf(names ...string) (addrs []string) {
	for _, name := range names {
		addrs = append(addrs, wireAddr(name))
	}
	return addrs
}

// secretly returns an edit that gives a node a secret and the peers.
func secretly(secret Secret, peers []string) func(*Config) {
	return func(c *Config) { c.Secret, c.Insecure, c.Peers = secret, false, peers }
}

// wantRefusal fails unless all nodes are refused, or none of them, as the probes see at once.
func (w *living) wantRefusal(want bool, when string, names ...string) {
	w.t.Helper()
	ended, cancel := context.WithCancel(w.t.Context())
	cancel()
	for _, name := range names {
		if err := w.nodes[name].Ready(ended); errors.Is(err, ErrRefused) != want {
			w.t.Errorf("%s: %s: %v, want refused %t", when, name, err, want)
		}
	}
}

// After the loss of a majority a single process with a wrong secret takes no process out of
// service: never the survivor, and the processes that replace the lost ones no longer than for two
// thirds of a term, after which the record shows that it isn't renewed.
func TestAWrongProcessBesideALostMajorityRefusesNoOther(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		m, right, wrong := new(register.Memory), NewSecret(), NewSecret()
		peers := addrsOf("a", "b", "c", "d", "e", "f")
		for _, name := range []string{"a", "b", "c"} {
			w.start(name, expect(3, registered(m), secretly(right, peers)))
		}
		w.ready("a")
		w.start("d", expect(3, registered(m), secretly(wrong, peers)))
		time.Sleep(30 * time.Second)
		w.wantRefusal(true, "beside the mesh", "d")
		w.crash("b")
		w.crash("c")
		time.Sleep(30 * time.Second) // a renews the record no more
		for _, name := range []string{"e", "f"} {
			w.start(name, expect(3, registered(m), secretly(right, peers)))
		}
		for n := range 15 {
			time.Sleep(30 * time.Second)
			w.wantRefusal(false, fmt.Sprint("beside the wrong one, ", n), "a")
			w.wantRefusal(true, fmt.Sprint("beside the right ones, ", n), "d")
		}
		w.wantRefusal(false, "the record has stood unchanged", "e", "f")
		w.crash("d")
		time.Sleep(time.Minute)
		w.wantRefusal(false, "the wrong one is gone", "a", "e", "f")
		w.start("d", expect(3, registered(m), secretly(right, peers)))
		time.Sleep(time.Minute)
		w.wantRefusal(false, "the wrong one is right", "a", "d", "e", "f")
	})
}

// The address of another mesh takes no process out of service after the loss of a majority.
func TestAnAddressOfAnotherMeshBesideALostMajorityRefusesNoProcess(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		m := new(register.Memory)
		with := expect(3, registered(m), func(c *Config) { c.Peers = addrsOf("a", "b", "c", "d", "e", "x") })
		w.start("x", expect(1, func(c *Config) { c.Mesh, c.Peers = "another", nil }))
		for _, name := range []string{"a", "b", "c"} {
			w.start(name, with)
		}
		w.ready("a")
		w.crash("b")
		w.crash("c")
		time.Sleep(30 * time.Second) // a renews the record no more
		w.start("d", with)
		w.start("e", with)
		for n := range 12 {
			time.Sleep(time.Minute)
			names := []string{"a"}
			if n >= 7 { // the record has stood unchanged for two thirds of a term
				names = append(names, "d", "e")
			}
			w.wantRefusal(false, fmt.Sprint(n+1, " minutes"), names...)
		}
		w.ready("e")
	})
}

// A process that has known the voters isn't refused after their loss, whether the process votes or
// not: its readiness is latched.
func TestAWrongProcessRefusesNoSurvivor(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inCountedBubble(t, func(t *testing.T, w *living) {
		right, wrong := NewSecret(), NewSecret()
		peers := addrsOf("a", "b", "c", "d", "n")
		for _, name := range []string{"a", "b", "c"} {
			w.start(name, expect(3, secretly(right, peers)))
		}
		w.start("n", expect(3, secretly(right, peers), nonVoting))
		w.ready("n")
		w.start("d", expect(3, secretly(wrong, peers)))
		time.Sleep(time.Minute)
		w.crash("b")
		w.crash("c")
		for n := range 10 {
			time.Sleep(30 * time.Second)
			w.wantRefusal(false, fmt.Sprint(n), "a", "n")
		}
		if text := w.nodes["a"].Status().Electorate.Change; !contains(text, "waits until 3 processes (Expect)", "refuses this node") {
			t.Errorf("a isn't reborn, or doesn't say that d refuses it: %s", text)
		}
	})
}

// A refusal ends when the process that refuses is mended, and a while after that process is gone.
func TestARefusalEndsWithTheProcessThatRefuses(t *testing.T) {
	for _, edit := range []func(*Config){nil, nonVoting} {
		inCountedBubble(t, func(t *testing.T, w *living) {
			right, wrong := NewSecret(), NewSecret()
			start := func(name string, secret Secret, edit func(*Config)) {
				w.start(name, expect(3, secretly(secret, addrsOf("d", "e")), func(c *Config) {
					if edit != nil {
						edit(c)
					}
				}))
			}
			start("d", wrong, nil)
			start("e", right, edit)
			time.Sleep(30 * time.Second)
			w.wantRefusal(true, "beside the wrong one", "e")
			w.crash("d")
			time.Sleep(10 * time.Second)
			w.wantRefusal(true, "the wrong one may be restarted", "e")
			time.Sleep(2 * time.Minute)
			w.wantRefusal(false, "the wrong one is gone", "e")
			start("d", wrong, nil)
			time.Sleep(30 * time.Second)
			w.wantRefusal(true, "beside another wrong one", "e")
			w.crash("d")
			start("d", right, nil)
			time.Sleep(10 * time.Second)
			w.wantRefusal(false, "the wrong one is mended", "e")
		})
	}
}

// More processes with the same wrong secret than the mesh has don't open their gates: neither
// before the register has shown them that the mesh is alive nor afterwards, nor while they can't
// read it.
func TestNoNumberOfProcessesWithAWrongSecretIsEnough(t *testing.T) {
	t.Parallel()
	sampled.Unraced(t)
	sampled.Computes(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		m, outOfReach, right, wrong := new(register.Memory), new(register.Memory), NewSecret(), NewSecret()
		outOfReach.Fail(errors.New("out of reach"))
		late := []string{"d", "e", "f", "g", "h"}
		peers := append(addrsOf(late...), addrsOf("a", "b", "c")...)
		with := func(secret Secret, r register.Register) func(*Config) {
			return expect(3, registered(r), secretly(secret, peers), func(c *Config) { c.RegisterTerm = 5 * time.Minute })
		}
		for _, name := range []string{"a", "b", "c"} {
			w.start(name, with(right, m))
		}
		w.ready("a")
		for _, name := range late[1:] {
			w.start(name, with(wrong, m))
		}
		w.start(late[0], with(wrong, outOfReach))
		for n := range 7 { // the first renewal is seen after half a term at most
			time.Sleep(30 * time.Second)
			w.wantRefusal(true, fmt.Sprint(n), late...)
		}
	})
}
