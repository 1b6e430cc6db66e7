package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// holdMutants break the rules by which a key is kept for the promised time and no longer.
var holdMutants = []mutant{
	{name: "a minimum hold granted by votes that may be forgotten", build: hidesHolds, scenario: forgottenHold, options: Options{Clients: 2}},
	{name: "a minimum hold granted by votes of voters that may apply another electorate", build: hidesHolds, scenario: holdOfTheOld, options: grows,
		draw: DrawDynamic},
}

// holdHider is a node without a vote. The wrapper sends the minimum hold of a request to the
// voters, and grants the lease as if there were no minimum hold.
type holdHider struct {
	Machine
	holds map[vote.Number]time.Duration
}

func hidesHolds(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &holdHider{n, make(map[vote.Number]time.Duration)}, err
}

func (h *holdHider) Lock(now vote.Now, ask quorum.RequestOptions) (vote.Number, error) {
	hold := ask.MinHold
	ask.MinHold = 0
	n, err := h.Machine.Lock(now, ask)
	if err == nil && hold > 0 {
		h.holds[n] = hold
	}
	return n, err
}

func (h *holdHider) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = h.Machine.Drain(out, ev)
	for i := first; i < len(out); i++ {
		switch m := &out[i].Message; m.Kind {
		case vote.KindRequest:
			m.MinHold = h.holds[m.Number]
		case vote.KindSync:
			for j := range m.Entries {
				m.Entries[j].MinHold = h.holds[m.Entries[j].Number]
			}
		}
	}
	return out, ev
}

// forgottenHold has x1 win by the vote of an earlier incarnation of a, long after a's new
// incarnation has begun its startup quarantine.
func forgottenHold(w *World) {
	w.Script.Cut("x1", "c")
	w.Run(2 * sceneTTL)
	free := w.Script.Stall("x1", "b", true)
	r := w.Script.Ask(Ask{Node: "x1", Key: "k", MinHold: vote.MaxKept(sceneTTL)})
	w.Run(50 * time.Millisecond)
	w.Script.PowerOff("a")
	w.Script.Start("a")
	w.Run(900 * time.Millisecond)
	free()
	w.expect(r, Granted, 3*sceneTTL)
	w.Run(10 * time.Millisecond)
	w.Script.Release(r)
	w.expect(w.Script.Lock("x2", "k"), Granted, 4*sceneTTL)
}

// holdOfTheOld has y win by the votes of b and c, long after b and c applied the next electorate; y
// learns of this electorate only with b's vote. When the electorate after the next is applied, the
// other nodes are a majority.
func holdOfTheOld(w *World) {
	w.founded()
	w.Script.Cut("y", "a", "d", "e")
	w.Run(2 * sceneTTL)
	w.dynamic.when("a", false, vote.KindAccepted, func() {
		others := []string{"a", "b", "d", "e"}
		w.Script.Split([]string{"c"}, others)
		free := w.Script.Stall("y", "b", true)
		w.Script.Ask(Ask{Node: "y", Key: "k", MinHold: vote.MaxKept(sceneTTL)})
		w.At(20*time.Millisecond, func() {
			w.Script.Cut("y", "c")
			w.Script.Join([]string{"c"}, others)
		})
		w.At(sceneTTL*48/100, func() { // before y closes the silent connection
			free()
			w.Script.Lock("a", "k")
		})
	})
	w.Script.Start("d")
	w.Script.Start("e")
	w.Run(8 * sceneTTL)
}
