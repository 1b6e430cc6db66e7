package lockmesh

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// TestAnotherMaxVotersIsToldOfAndTheDecidedOneCounts has three founders with MaxVoters 3, and two
// more nodes with 5. The two nodes log a warning with both values, and stay on standby. Once a
// majority of the voters has restarted with 5, both nodes become voters, and the third voter warns
// instead.
func TestAnotherMaxVotersIsToldOfAndTheDecidedOneCounts(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inLivingBubble(t, func(t *testing.T, w *living) {
		limited := func(most int, found bool) func(*Config) {
			return func(c *Config) { c.MaxVoters, c.Bootstrap = most, found }
		}
		for _, name := range w.founders {
			w.start(name, limited(3, true))
		}
		for _, name := range w.founders {
			w.until(name, "the limit decided", func(s ElectorateStatus) bool { return s.MaxVoters == 3 && s.StoredVersion == s.Version })
		}
		for _, name := range []string{"d", "e"} {
			w.start(name, limited(5, false))
			w.until(name, "the electorate", func(s ElectorateStatus) bool { return s.Version == 1 && s.MaxVoters == 3 })
		}
		time.Sleep(10 * DefaultMaxTTL)
		if s := w.nodes["a"].Status().Electorate; s.Version != 1 || !slices.Equal(s.names(), w.founders) || len(s.Standby) != 2 {
			t.Errorf("%v", s)
		}
		warned := func(on string, own, decided string) int {
			return w.logs.count("level=WARN", "MaxVoters is "+own+" on this node, and "+decided+" by decision of the voters", "on="+on+" ")
		}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			want := 0
			if name > "c" {
				want = 1
			}
			if got := warned(name, "5", "3"); got != want {
				t.Errorf("%s has warned %d times, want %d:\n%s", name, got, want, w.logs.lines)
			}
		}

		for _, name := range []string{"a", "b"} {
			w.crash(name)
			w.start(name, limited(5, true))
			w.ready(name)
		}
		s := w.untilVoters("e", "a", "b", "c", "d", "e")
		if s.MaxVoters != 5 {
			t.Errorf("%v", s)
		}
		w.untilVoters("c", "a", "b", "c", "d", "e")
		if got := warned("c", "3", "5"); got != 1 {
			t.Errorf("c has warned %d times, want 1", got)
		}
		w.unlock(w.lock("e", "k"))
	})
}
