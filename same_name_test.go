package lockmesh

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// TestProcessesWithExpectAreRestartedUnderTheirNames: as systemd restarts services with names of
// their own. The voters vote the new process in, in place of the earlier one, with no spare process
// to take the seat meanwhile.
func TestProcessesWithExpectAreRestartedUnderTheirNames(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	for name, end := range map[string]func(w *living, name string){
		"crash": func(w *living, name string) { w.crash(name) },
		"stop": func(w *living, name string) {
			if err := w.nodes[name].Stop(w.t.Context()); err != nil {
				w.t.Error(err)
			}
		},
		"leave": func(w *living, name string) { _ = w.nodes[name].Leave(testwait.Within(w.t, time.Minute)) },
	} {
		t.Run(name, func(t *testing.T) {
			inCountedBubble(t, func(t *testing.T, w *living) {
				w.born()
				w.start("x", expect(3, nonVoting))
				w.ready("x")
				held := w.lock("x", "held")
				for _, name := range []string{"a", "b", "c", "a"} {
					end(w, name)
					w.start(name, expect(3))
					w.ready(name)
					if err := w.nodes[name].Settled(testwait.Within(t, 5*time.Minute)); err != nil {
						t.Fatalf("%s isn't settled: %v", name, err)
					}
					w.unlock(w.lock("x", "k"))
				}
				w.untilVoters("b", "a", "b", "c")
				if err := held.Err(); err != nil {
					t.Errorf("a lease did not outlive the restarts: %v", err)
				}
			})
		})
	}
}

// TestAProcessThatWasCutOffIsRefusedUnderItsName: an orchestrator replaces a process that is only
// cut off by another of the same name. The new process votes, and goes on to once the first is
// back.
func TestAProcessThatWasCutOffIsRefusedUnderItsName(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.born()
		first, elsewhere := w.nodes["a"], "10.0.0.99:7950"
		lost := w.lock("a", "k")
		cut := func(from, to string) bool { return from == wireAddr("a") || to == wireAddr("a") }
		w.CutAddrs(cut)
		time.Sleep(time.Minute)
		w.start("a", expect(3, func(c *Config) {
			c.Bind, c.Peers = elsewhere, []string{wireAddr("b"), wireAddr("c")}
		}))
		w.until("b", "the new process votes", func(s ElectorateStatus) bool { return !s.Joint && s.Counting == 3 })
		was := w.nodes["b"].Status().Electorate.Version
		held := w.lock("a", "k")
		if lost.Err() == nil {
			t.Fatal("two holders of k")
		}
		w.CutAddrs(func(string, string) bool { return false })
		for range 10 {
			time.Sleep(time.Minute)
			if _, err := first.TryLock(testwait.Within(t, time.Second), "other"); err == nil {
				t.Fatal("both processes of the name lock")
			}
		}
		if n := w.logs.count("level=ERROR", "refuses this process: another live process is called"); n < 2 {
			t.Errorf("%d alarms by the voters that refuse the process", n)
		}
		const most = 60 // a few for each identity, of which the process has one a minute
		for _, level := range []string{"level=ERROR", "level=WARN"} {
			if lines := w.logs.all(level); len(lines) > most {
				t.Errorf("%d lines in ten minutes, such as %s", len(lines), lines[len(lines)-1])
			}
		}
		if s := w.nodes["b"].Status().Electorate; s.Version != was || held.Err() != nil {
			t.Errorf("the electorate was %d and is %d; the new process's lease: %v", was, s.Version, held.Err())
		}
	})
}

// TestTheNewerOfTwoProcessesIsRestarted: with fixed voters the newer of two processes of a name
// gives way until its end. Alive says so, so that an orchestrator restarts the process.
func TestTheNewerOfTwoProcessesIsRestarted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *wire) {
		voters := []string{"a", "b", "c"}
		elsewhere := func(c *Config) { c.Bind, c.Peers = "10.0.0.99:7950", addrsOf(voters...) }
		first, _, _ := w.three()
		time.Sleep(2 * DefaultMaxTTL)
		w.CutAddrs(func(from, to string) bool { return from == wireAddr("a") || to == wireAddr("a") })
		time.Sleep(time.Minute)
		newer := w.join("a", voters, elsewhere)
		if err := newer.Settled(testwait.Within(t, 5*time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := newer.Alive(t.Context()); err != nil {
			t.Error(err)
		}
		w.CutAddrs(func(string, string) bool { return false })
		time.Sleep(time.Minute)
		if err := first.Stop(testwait.Within(t, time.Minute)); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Minute)
		err := newer.Alive(t.Context())
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "restart this process") {
			t.Errorf("the process that takes no part any more is alive: %v", err)
		}
		if err := first.Alive(t.Context()); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := newer.Close(); err != nil {
			t.Error(err)
		}
		again := w.join("a", voters, elsewhere)
		if err := again.Settled(testwait.Within(t, 5*time.Minute)); err != nil {
			t.Error(err)
		}
		if err := again.Alive(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
