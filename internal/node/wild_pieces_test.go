package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// TestAnythingInPieces is TestAnythingInAnyOrder with turns so short that each Tick makes or takes
// in only a few requests of a sync or an answer: everything else happens in between.
func TestAnythingInPieces(t *testing.T) {
	sampled.Computes(t)
	var sum quorum.Counters
	for _, how := range []manner{breaks, restarts, dynamic} {
		for seed := range uint64(*wildSeeds) {
			t.Run(fmt.Sprintf("%s/seed=%d", how, seed), func(t *testing.T) {
				w := newWildInPieces(t, how, seed, 3, 5, 1+int(seed%3))
				w.most = 60
				w.manyKeys()
				w.monkey(*wildSteps, w.often)
				if t.Failed() {
					return
				}
				w.pass(time.Second)
				w.idle(how.ttl() + 4*time.Second)
				w.quiescent()
				for _, name := range w.names {
					c := w.nodes[name].Requester().Counters()
					sum.MadeInPieces += c.MadeInPieces
					sum.ReadInPieces += c.ReadInPieces
					sum.ListedAhead += c.ListedAhead
					sum.Kept += c.Kept
				}
			})
		}
	}
	did := fmt.Sprintf("%d syncs were made in pieces and %d answers taken in, with %d requests listed "+
		"ahead and %d messages kept", sum.MadeInPieces, sum.ReadInPieces, sum.ListedAhead, sum.Kept)
	least := uint64(*wildSeeds)
	if !t.Failed() && min(sum.MadeInPieces, sum.ReadInPieces, sum.ListedAhead, sum.Kept) < least {
		t.Error(did + ": it has shown too little")
	}
	t.Log(did)
}

// manyKeys has each node request keys of its own, and keep the leases.
func (w *wild) manyKeys() {
	for _, name := range w.names {
		for i := range 8 {
			w.lock(name, quorum.Exclusive(vote.Key(fmt.Sprintf("%s/%d", name, i)), false))
		}
	}
	w.pass(100 * time.Millisecond)
}

// often is anything, and breaks a connection every few times.
func (w *wild) often(name vote.NodeID) (quorum.RequestOptions, bool) {
	if conns := w.open(); w.rng.IntN(4) == 0 {
		w.cut(conns[w.rng.IntN(len(conns))])
	}
	return w.anything(name)
}
