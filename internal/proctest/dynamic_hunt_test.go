//go:build hunt

package proctest

import "testing"

// The electorate of real processes with real directories grows from 3 to 5 voters, shrinks when two
// founders are killed for good, and grows back with two new nodes; then all nodes are killed and
// restarted in turn. Meanwhile a worker in each process takes the same lock over and over, and a
// lease is held until its own process is restarted. The test takes about a minute.
func TestTheElectorateChangesWithTheMembers(t *testing.T) {
	t.Parallel()
	s := found(t, abc)
	a := s.procs["a"]
	held := a.lock("held throughout")

	s.phase("grow from 3 to 5", func() {
		s.join("d", "e")
		s.awaitAll("a", "b", "c", "d", "e")
	})
	s.phase("two founders die for good", func() {
		s.killHolding("b")
		s.kill("c")
		s.bury("b", "c")
		s.awaitAll("a", "d", "e")
	})
	s.phase("grow back to 5", func() {
		s.join("f", "g")
		s.awaitAll("a", "d", "e", "f", "g")
	})
	// After these restarts only the holder knows how its lease began.
	for _, name := range []string{"d", "e", "f", "g"} {
		s.phase("restart "+name, func() { s.restart(name) })
	}
	a.tell("use held throughout")
	if used := a.awaitEvent("used", "held throughout"); used.Token != held.Token {
		t.Errorf("the lease that was held throughout has token %d, and had %d", used.Token, held.Token)
	}
	a.tell("unlock held throughout")
	a.awaitEvent("released", "held throughout")
	s.phase("restart a", func() { s.restart("a") })
	s.end()
}
