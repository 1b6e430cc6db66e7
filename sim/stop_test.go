package sim

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/check"
	"github.com/lockmesh/lockmesh/sim/internal/broken"
)

// A voter that was stopped in good order is quiet after its next start, as after a crash. These
// scenarios are the counterexamples to skipping the startup quarantine (docs/adr/0033). In each
// scenario b skips the startup quarantine, and two nodes hold one key.

// spares builds nodes. The node with the given name has no startup quarantine at the given starts.
func spares(name vote.NodeID, starts ...int) Builder {
	count := 0
	spared := make(map[int]bool)
	for _, s := range starts {
		spared[s] = true
	}
	return func(w *World, cfg node.Config, now vote.Now) (Machine, error) {
		if cfg.Name == name {
			if count++; spared[count] {
				return shared(broken.Hasty)(w, cfg, now)
			}
		}
		return Genuine(w, cfg, now)
	}
}

// stoppedWhileCutOff has b stop while x1 holds the key by b's vote, and no message about the stop
// reaches x1. A list of the nodes that have confirmed b's farewell doesn't help: x1 isn't on the
// list, and b's next incarnation can't know that x1 is missing.
var stoppedWhileCutOff = votesAgainAtOnce

// stoppedTwiceByOneMark has b stop while no node relies on b's vote, so that b could leave a mark
// in its directory: "no vote of mine counts any more". The next incarnation reads the mark, removes
// the mark, and votes for x1. Then the machine is restored from a copy of its disk with the mark.
func stoppedTwiceByOneMark(w *World) {
	w.Script.Restart("b") // reads the mark
	w.Run(sceneTTL / 2)
	w.Script.Cut("x1", "c")
	w.Script.Lock("x1", "k") // votes of a and b
	w.Run(500 * time.Millisecond)
	w.Script.Lock("x2", "k") // vote of c
	w.Script.Cut("x1", "b")
	w.Script.Restart("b") // reads the copy of the mark
	w.Run(2 * sceneTTL)
}

func TestAStopInGoodOrderDoesntSpareTheQuietTime(t *testing.T) {
	for _, c := range []struct {
		name     string
		scenario func(*World)
		spared   []int // the starts of b without a startup quarantine
		check    string
	}{
		{"cut off, as it is", stoppedWhileCutOff, nil, ""},
		{"cut off, spared", stoppedWhileCutOff, []int{2}, check.RuleExclusion},
		{"a mark, as it is", stoppedTwiceByOneMark, nil, ""},
		{"a mark, read once", stoppedTwiceByOneMark, []int{2}, ""},
		{"a mark, read twice", stoppedTwiceByOneMark, []int{2, 3}, check.RuleExclusion},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := New(Options{
				Seed: 1, Clients: 2, MaxTTL: sceneTTL, Clocks: Clocks{Exact: true},
				Build: spares("b", c.spared...),
			})
			w.judge.deaf = outcomes // checks only the effects visible to users
			if !w.Script.Awake() {
				t.Fatalf("the mesh isn't ready: %v", w.Err())
			}
			c.scenario(w)
			if w.fig.Acquisitions == 0 {
				t.Error("no lock was granted")
			}
			check := ""
			if v := w.Violation(); v != nil {
				check = v.Check
			}
			if check != c.check {
				t.Errorf("the violated check is %q, not %q: %v", check, c.check, w.Err())
			}
		})
	}
}
