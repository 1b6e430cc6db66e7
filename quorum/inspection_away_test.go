package quorum

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The answers of a majority are certain, even if an unreachable voter was never asked.
func TestAnInspectionIsCertainWithoutAVoterThatWasNeverAsked(t *testing.T) {
	b := newBench(t, 3)
	b.link("v0")
	b.link("v1")
	i := &inspected{b, make(map[vote.NodeID]uint64)}
	i.q.Inspect(i.now, "k")
	if n := i.questions(); n != 2 {
		t.Fatalf("%d voters were asked", n)
	}
	i.showLapsed("v0", 100*time.Millisecond)
	i.showLapsed("v1", 100*time.Millisecond)
	i.want("", true)
}

// A query shows the number of permits by which the voters know the key; a voter that has forgotten
// the key knows none.
func TestALookShowsTheNumberOfPermits(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	nonce := b.q.Query(b.now, "k")
	b.sends("v0", vote.Message{Kind: vote.KindQueryResult, Nonce: nonce, Spec: vote.Spec{Permits: 3}, End: true})
	b.sends("v1", vote.Message{Kind: vote.KindQueryResult, Nonce: nonce, End: true})
	if e := b.last(EventQueryDone); e == nil || e.Result.Permits != 3 {
		t.Errorf("%+v", e)
	}
}
