package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// toldMutants report wrong reasons to a caller that gives up waiting.
var toldMutants = []mutant{
	{name: "silent voters are taken for a holder", build: takesSilenceForAHolder, scenario: givenUpInSilence, options: Options{Clients: 2}},
	{name: "a holder is taken for silent voters", build: takesAHolderForSilence, scenario: givenUpBehindAnother, options: Options{Clients: 2}},
}

// lying is a node that reports one reason instead of another.
type lying struct {
	*node.Node
	is, claimed quorum.WaitReason
}

func takesSilenceForAHolder(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return lying{n, quorum.WaitNoQuorum, quorum.WaitHeld}, err
}

func takesAHolderForSilence(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return lying{n, quorum.WaitHeld, quorum.WaitNoQuorum}, err
}

func (l lying) PendingReason(now vote.Now, num vote.Number) quorum.Wait {
	w := l.Node.PendingReason(now, num)
	if w.Reason == l.is {
		w.Reason = l.claimed
	}
	return w
}

// givenUpInSilence has x1 request a key named in no other request, while two of three voters are
// out of reach, and give up.
func givenUpInSilence(w *World) {
	w.Script.Cut("x1", "b")
	w.Script.Cut("x1", "c")
	for _, patience := range []time.Duration{sceneTTL / 4, sceneTTL, 3 * sceneTTL} {
		r := w.Script.Lock("x1", "k")
		w.Run(patience)
		w.Script.Release(r)
	}
}

// givenUpBehindAnother has x1 give up a key held by x2, in a mesh without faults.
func givenUpBehindAnother(w *World) {
	w.Run(calmTTLs*sceneTTL + servedFixed)
	w.Script.Lock("x2", "k")
	w.Run(sceneTTL)
	r := w.Script.Lock("x1", "k")
	w.Run(2 * sceneTTL)
	w.Script.Release(r)
}
