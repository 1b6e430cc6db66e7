package sim

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/quorum"
)

// TestSwarmInPieces runs seeds in which nodes make syncs, and take in answers, one to three
// requests at a time.
func TestSwarmInPieces(t *testing.T) {
	draw := func(seed uint64) Options { return inPieces(Draw(seed)) }
	swarm(t, 16, draw, func(*Figures) {}, "-pieces")
}

// TestSwarmInPiecesDynamic does the same with dynamic membership.
func TestSwarmInPiecesDynamic(t *testing.T) {
	draw := func(seed uint64) Options { return inPieces(DrawDynamic(seed)) }
	swarm(t, sampled.Count(3, 6), draw, func(*Figures) {}, "-dynamic", "-pieces")
}

func inPieces(o Options) Options {
	o.DrawTurn()
	return o
}

// TestWorldsInPiecesMeetWhatTheyAreFor shows that worlds with small pieces make syncs in pieces,
// with other events between the pieces.
func TestWorldsInPiecesMeetWhatTheyAreFor(t *testing.T) {
	sampled.Computes(t)
	var sum quorum.Counters
	for seed := range uint64(160) {
		w := New(inPieces(Draw(seed)))
		w.Run(20 * time.Second)
		for _, h := range w.hosts {
			if h.p == nil {
				continue
			}
			c := h.p.m.Requester().Counters()
			sum.MadeInPieces += c.MadeInPieces
			sum.ReadInPieces += c.ReadInPieces
			sum.ListedAhead += c.ListedAhead
			sum.Kept += c.Kept
		}
	}
	if sum.MadeInPieces < 100 || sum.ReadInPieces < 50 || sum.ListedAhead < 5 || sum.Kept == 0 {
		t.Errorf("too little was done in pieces: %+v", sum)
	}
	t.Logf("%d syncs were made in pieces and %d answers taken in, with %d requests listed ahead and %d "+
		"messages kept", sum.MadeInPieces, sum.ReadInPieces, sum.ListedAhead, sum.Kept)
}
