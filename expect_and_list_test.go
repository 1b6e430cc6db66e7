package lockmesh

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/register"
)

// TestAMisconfiguredProcessStopsOnlyItself: a process that lists only itself starts while its
// discovery finds no other node, counts alone, and then meets a mesh with Expect, or one of its
// voters. If that voter gave way, the other two would go on, and the process as well.
func TestAMisconfiguredProcessStopsOnlyItself(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	alone := map[string]func(*Config){
		"Voters [x]":           func(c *Config) { c.Voters = []string{"x"} },
		"Voters [x], StateDir": func(c *Config) { c.Voters, c.StateDir, c.Bootstrap = []string{"x"}, "/state/x", true },
		"Expect 1":             func(c *Config) { c.Expect, c.Peers = 1, nil },
	}
	for name, edit := range alone {
		for _, meets := range []string{"a", "a b c"} {
			for _, recorded := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s meets %s, register %t", name, meets, recorded), func(t *testing.T) {
					inCountedBubble(t, func(t *testing.T, w *living) { w.besideMisfit(edit, meets, recorded) })
				})
			}
		}
	}
}

// besideMisfit starts a mesh of three, and a process x with another configuration that reaches only
// some of the voters, and these only after a while.
func (w *living) besideMisfit(edit func(*Config), meets string, recorded bool) {
	w.t.Helper()
	peers := func(c *Config) {
		c.Peers = nil
		for _, name := range []string{"a", "b", "c", "x"} {
			c.Peers = append(c.Peers, wireAddr(name))
		}
	}
	count := expect(3, peers)
	if recorded {
		count = expect(3, peers, registered(new(register.Memory)))
	}
	for _, name := range []string{"a", "b", "c"} {
		w.start(name, count)
	}
	w.ready("a")
	held := w.lock("a", "held")
	time.Sleep(time.Minute)
	w.reachesX("")
	w.start("x", func(c *Config) {
		c.StateDir, c.Voters = "", nil
		peers(c)
		edit(c)
	})
	w.ready("x")
	w.reachesX(meets)
	time.Sleep(time.Minute)
	if err := held.Err(); err != nil {
		w.t.Errorf("the lease of the mesh has ended: %v", err)
	}
	if _, err := w.nodes["x"].Lock(testwait.Within(w.t, 10*time.Second), "k"); !errors.Is(err, ErrRefused) {
		w.t.Errorf("x locks beside the mesh: %v", err)
	}
	w.unlock(w.lock("b", "k"))
}

// reachesX cuts the process x off from all nodes but the given ones.
func (w *living) reachesX(names string) {
	reach := make(map[string]bool) // by address; it doesn't change any more
	for _, name := range strings.Fields(names) {
		reach[wireAddr(name)] = true
	}
	w.CutAddrs(func(from, to string) bool {
		if from == wireAddr("x") {
			from, to = to, from
		}
		return to == wireAddr("x") && !reach[from]
	})
}

// TestAGrownMeshGoesOnBesideASingleProcess: the list of a mesh that one node has founded has one
// voter, however many there are by now. A process with Expect 1 that has counted for longer must
// not make one of these voters give way.
func TestAGrownMeshGoesOnBesideASingleProcess(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.reachesX("")
		w.start("x", expect(1, func(c *Config) { c.Peers = nil }))
		w.ready("x")
		time.Sleep(time.Minute)
		for _, name := range []string{"a", "b", "c"} {
			w.start(name, func(c *Config) {
				c.Voters, c.Bootstrap = []string{"a"}, name == "a"
				c.Peers = append(c.Peers, wireAddr("x"))
			})
		}
		w.untilVoters("a", "a", "b", "c")
		w.ready("a")
		held := w.lock("a", "held")
		w.reachesX("a")
		time.Sleep(time.Minute)
		if err := held.Err(); err != nil {
			t.Errorf("the lease of the mesh has ended: %v", err)
		}
		if _, err := w.nodes["x"].Lock(testwait.Within(t, 10*time.Second), "k"); !errors.Is(err, ErrRefused) {
			t.Errorf("x locks beside the mesh: %v", err)
		}
		w.unlock(w.lock("b", "k"))
	})
}
