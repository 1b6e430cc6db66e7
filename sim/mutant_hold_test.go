package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// holdMutants break the rules by which a key is kept for as long as was promised and no longer.
var holdMutants = []mutant{
	{name: "a minimum hold granted by votes that may be forgotten", build: hidesHolds, scenario: forgottenHold, options: Options{Clients: 2}},
	{name: "a minimum hold granted by votes of voters that may go by another electorate", build: hidesHolds, scenario: holdOfTheOld, options: grows,
		draw: DrawFollowing},
}

// holdHider tells the voters of a minimum hold and grants the lease as if there were none. It is for nodes that don't vote.
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

// forgottenHold has x1 win by the vote of a life of a that is gone, and that a's new life began to wait out long before.
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

// holdOfTheOld has y win by the votes of b and c, long after those went by the next electorate, which y heard of as late as of b's vote. When
// the next but one is in force, the others are a majority.
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
		w.At(sceneTTL*48/100, func() { // before y closes the connection, since it hears nothing
			free()
			w.Script.Lock("a", "k")
		})
	})
	w.Script.Start("d")
	w.Script.Start("e")
	w.Run(8 * sceneTTL)
}
