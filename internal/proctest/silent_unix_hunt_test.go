//go:build hunt && unix

package proctest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Two of three voters are stopped. From the first call on, a call for a key never locked reports
// that too few voters answer, and names the silent voters; no call reports the key as held. The
// status agrees once a stopped voter is silent. When the voters go on, so do the locks.
func TestWithTwoVotersStoppedNoKeyIsSaidToBeHeld(t *testing.T) {
	t.Parallel()
	m := startMesh(t, abc)
	a := m.procs["a"]
	a.lock("before")
	stopped := []string{"b", "c"}
	for _, name := range stopped {
		m.procs[name].halt()
	}
	for i := range 5 {
		key := fmt.Sprintf("never-locked-%d", i)
		a.tell("trylock " + key)
		e := a.await("an answer to trylock", func(l line) bool { return l.Key == key && (l.Event == "error" || l.Event == "granted") })
		if e.Event != "error" || !slices.Contains(e.Is, "noquorum") || slices.Contains(e.Is, "held") {
			t.Fatalf("call %d for a key that nobody has: %s %v: %s", i, e.Event, e.Is, e.Text)
		}
		for _, name := range stopped {
			if !strings.Contains(e.Text, name) {
				t.Errorf("call %d doesn't name %s, which doesn't answer: %s", i, name, e.Text)
			}
		}
	}
	a.until("a voter that is silent", func() bool {
		return slices.ContainsFunc(a.lines, func(l line) bool { return l.Event == "voters" && l.Voters["b"] == "silent" })
	})
	a.tell("status")
	if st := a.awaitEvent("status", "").Status; st.Electorate.Ready {
		t.Error("the status is ready while two of three voters are stopped")
	}
	for _, name := range stopped {
		m.procs[name].resume()
	}
	a.lock("after")
}
