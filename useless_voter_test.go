package lockmesh

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// A voter that is of no use to the others, though it is never away for long, loses its seat to a
// node on standby, and the mesh survives the next crash. Otherwise no lock was granted for as long
// as the trouble lasted, though three of five processes were well.
func TestAVoterOfNoUseIsReplaced(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	limited := func(c *Config) { c.MaxVoters = 3 }
	for name, trouble := range map[string]func(w *living){
		"its process crashes soon after each start": func(w *living) {
			w.crash("a")
			time.Sleep(2 * time.Second)
			w.start("a", limited)
			time.Sleep(time.Second)
		},
		"its process crashes before its votes count": func(w *living) {
			w.crash("a")
			time.Sleep(2 * time.Second)
			w.start("a", limited)
			time.Sleep(8 * time.Second)
		},
		"it is reached for a moment now and then": func(w *living) {
			w.Cut(func(from, to string) bool { return from == "a" || to == "a" })
			time.Sleep(27 * time.Second)
			w.Cut(func(string, string) bool { return false })
			time.Sleep(2 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLivingBubble(t, func(t *testing.T, w *living) {
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
					trouble(w)
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
		})
	}
}
