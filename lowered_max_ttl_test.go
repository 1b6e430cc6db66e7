package lockmesh

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// TestALoweredMaxTTLCountsAfterALoss: the maximum TTL of a mesh born by count was lowered long
// ago. A total loss heals in 7 of the lowered value, although one process that had known the longer
// one outlives the loss.
func TestALoweredMaxTTLCountsAfterALoss(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	const long, short = 2 * time.Minute, 2 * time.Second
	inCountedBubble(t, func(t *testing.T, w *living) {
		with := func(d time.Duration) func(*Config) {
			return expect(3, func(c *Config) { c.MaxTTL, c.Peers = d, addrsOf("a", "b", "c", "d", "e", "f", "g", "h") })
		}
		for _, name := range []string{"a", "b", "c"} {
			w.start(name, with(long))
		}
		if err := w.nodes["a"].Ready(testwait.Within(t, time.Hour)); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"d", "e", "f"} {
			w.start(name, with(short))
			if err := w.nodes[name].Settled(testwait.Within(t, 10*time.Hour)); err != nil {
				t.Fatal(err)
			}
			if err := w.nodes[string("abc"[i])].Leave(testwait.Within(t, 10*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		w.untilVoters("f", "d", "e", "f")
		time.Sleep(2 * long) // no lease of the longer value is left
		w.crash("d")
		w.crash("e")
		began := time.Now()
		for _, name := range []string{"g", "h"} {
			w.start(name, with(short))
		}
		w.unlock(w.lock("g", "k"))
		if took := time.Since(began); took > 9*short+5*time.Second {
			t.Errorf("locks are granted again after %v", took)
		}
		if s := w.nodes["f"].Status().Electorate; s.MaxTTL != short {
			t.Errorf("the decided maximum TTL is %v", s.MaxTTL)
		}
	})
}
