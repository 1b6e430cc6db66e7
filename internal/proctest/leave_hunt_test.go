//go:build hunt

package proctest

import "testing"

// A voter that leaves is voted out before its process ends. The node may come back with its
// directory, and is voted in.
func TestAVoterThatLeavesIsVotedOutAndMayComeBack(t *testing.T) {
	t.Parallel()
	m := startDynamic(t, abc)
	a, b, c := m.procs["a"], m.procs["b"], m.procs["c"]
	held := a.lock("held throughout")
	c.tell("leave")
	c.reached("left")
	if code := c.exitCode(); code != 0 {
		t.Errorf("c ends with code %d, want 0", code)
	}
	for _, p := range []*process{a, b} {
		p.awaitElectorate("a", "b")
	}
	larger(t, b.lock("k"), held)
	c = m.start("c", m.addrs["c"])
	for _, name := range abc {
		m.procs[name].awaitElectorate(abc...)
		m.procs[name].awaitVoter("c", "reachable")
	}
	c.queued("k")
	a.tell("use held throughout")
	a.awaitEvent("used", "held throughout")
	b.tell("unlock k")
	c.awaitEvent("granted", "k")
	for _, p := range []*process{a, b, c} {
		p.none("lost")
	}
}
