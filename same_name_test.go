package lockmesh

import (
	"testing"
	"time"
)

// TestProcessesWithExpectAreRestartedUnderTheirNames : as systemd restarts services with names of
// their own. The voters vote the new process in, in place of the earlier one, with no spare process
// to take the seat meanwhile.
func TestProcessesWithExpectAreRestartedUnderTheirNames(t *testing.T) {
	for name, end := range map[string]func(w *living, name string){
		"crash": func(w *living, name string) { w.crash(name) },
		"stop": func(w *living, name string) {
			if err := w.nodes[name].Stop(w.t.Context()); err != nil {
				w.t.Error(err)
			}
		},
		"leave": func(w *living, name string) { _ = w.nodes[name].Leave(within(w.t, time.Minute)) },
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
					if err := w.nodes[name].Settled(within(t, 5*time.Minute)); err != nil {
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
