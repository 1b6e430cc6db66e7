package quorum

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A request wins between a sync and its answer. The answer still shows the token of an earlier
// round, confirmed by the voter. The voter keeps its vote for the lease: the vote still counts, and
// the voter isn't asked to confirm the token again.
func TestAVoteForALeaseCountsThoughAnAnswerShowsAnEarlierRound(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 105)
	if got := b.sentTo("v0"); got != "request confirm" {
		t.Fatalf("v0 was told %q", got)
	}
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
	b.promise("v2", n, 1, 100)
	b.granted(n, true)
	if e := b.last(EventGranted); e.Token != vote.Token(100).First() {
		t.Fatalf("token %d", e.Token)
	}
	set := Set(0).With(0).With(2)
	if got := b.q.requests[n].group.set; got != set {
		t.Fatalf("the lease rests on %b, want %b", got, set)
	}
	b.sentTo("v0")
	b.answer("v0", vote.Entry{Number: n, Serial: 1, Token: 105})
	if got := b.q.requests[n].group.set; got != set || b.last(EventMoved) != nil {
		t.Errorf("the lease rests on %b after the answer, want %b", got, set)
	}
	if got := b.sentTo("v0"); got != "" {
		t.Errorf("v0 was told %q for its answer", got)
	}
}
