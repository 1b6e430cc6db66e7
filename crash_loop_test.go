package lockmesh

import (
	"slices"
	"testing"
	"time"
)

// A voter whose process crashes soon after each start loses its seat to a node on standby. The mesh
// survives the next crash: without the rule no lock was granted for as long as the loop lasted,
// though three of five processes were well.
func TestAVoterInACrashLoopIsReplaced(t *testing.T) {
	t.Parallel()
	inLivingBubble(t, func(t *testing.T, w *living) {
		limited := func(c *Config) { c.MaxVoters = 3 }
		for _, name := range w.founders {
			w.start(name, func(c *Config) { found(c); limited(c) })
		}
		for _, name := range []string{"d", "e"} {
			w.start(name, limited)
		}
		w.ready("a")
		w.ready("d")
		w.ready("e")
		for began := time.Now(); ; {
			w.crash("a")
			time.Sleep(2 * time.Second)
			w.start("a", limited)
			time.Sleep(time.Second)
			if e := w.nodes["b"].Status().Electorate; !e.Joint && e.Spare > 0 && !slices.Contains(e.names(), "a") {
				break
			}
			if time.Since(began) > 10*DefaultMaxTTL {
				t.Fatalf("after %v the voters are %v", time.Since(began), w.nodes["b"].Status().Electorate.names())
			}
		}
		w.crash("b")
		w.unlock(w.lock("d", "k"))
	})
}
