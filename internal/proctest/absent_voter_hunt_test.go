//go:build hunt

package proctest

import (
	"slices"
	"testing"
	"time"
)

// One of three voters is away for long enough to be voted out, comes back, and then another voter
// is killed. A fixed list of three voters would go on; so does a mesh with dynamic membership,
// since the electorate keeps the seat of a voter without a replacement.
func TestThreeVotersOneAwayForLongThenAnother(t *testing.T) {
	t.Parallel()
	s := found(t, abc)
	a := s.procs["a"]
	s.phase("c is away for long", func() {
		s.killHolding("c")
		s.bury("c")
		// A change of the electorate takes less time.
		for begun := time.Now(); time.Since(begun) < failAfter+3*ttl; {
			a.forget()
			a.awaitEvent("granted", "k")
		}
	})
	s.phase("c is back, and b is killed", func() {
		s.nodes = append(s.nodes, "c")
		slices.Sort(s.nodes)
		c := s.launch("c")
		c.awaitEvent("granted", "k") // by the votes of a and b
		s.killHolding("b")
		s.bury("b")
	})
	for _, name := range s.nodes {
		if e := s.procs[name].awaitElectorate("a", "b", "c"); e.Version != 1 {
			t.Errorf("%s applies electorate %d; nothing was to change", name, e.Version)
		}
	}
	s.end()
}
