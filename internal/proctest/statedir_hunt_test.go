//go:build hunt

package proctest

import (
	"os"
	"path/filepath"
	"testing"
)

// A voter with a removed state directory comes back as a new peer, is voted in again, and votes; a
// lease held all the while is kept.
func TestALostStateDirectory(t *testing.T) {
	t.Parallel()
	m := startDynamic(t, abc)
	a := m.procs["a"]
	held := a.lock("held throughout")
	m.procs["c"].kill()
	if err := os.Remove(filepath.Join(m.stateDir("c"), "state")); err != nil {
		t.Fatal(err)
	}
	c := m.start("c", m.addrs["c"])
	votedIn := c.await("c is voted in", func(l line) bool {
		return l.Event == "electorate" && !l.Joint && l.Voter && len(l.Names) == len(abc)
	})
	if votedIn.Version == 1 {
		t.Error("c votes in version 1, though it has lost the directory with which it founded it")
	}
	c.awaitVoter("c", "reachable")
	m.procs["b"].kill() // so a and the new c are the majority
	a.awaitVoter("b", "unreachable")
	larger(t, c.lock("k"), held)
	a.tell("use held throughout")
	a.awaitEvent("used", "held throughout")
	a.none("lost")
}
