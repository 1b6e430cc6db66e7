package quorum

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A half of a joint electorate may be a single voter. A single voter isn't trusted with a token
// above all clocks; two voters are.
func TestOneVoterOfAJointElectorateIsNotBelievedAlone(t *testing.T) {
	f := follow(t, "1: b")
	f.reconfigureTo("2: a b c (b)")
	f.link("a c")
	for range 10 { // the previous electorate counts for a TTL, then the joint electorate alone
		f.pass(ttl / 10)
		f.ack("a b c")
	}
	n := f.lock(false)
	far := vote.MaxFrom(vote.TokenAt(f.now.Wall)) + 1_000_000
	f.sends("b", vote.Message{Kind: vote.KindPromise, Number: n, Serial: 1, Token: far})
	if got := f.q.Counters().Distrusted; got != 1 || f.q.stamps.tokenHint(f.q.now.Wall) > far {
		t.Errorf("%d tokens are refused, and the next hint is %d, where one voter has named %d", got, f.q.stamps.tokenHint(f.q.now.Wall), far)
	}
	f.sends("a", vote.Message{Kind: vote.KindPromise, Number: n, Serial: 1, Token: far})
	if got := f.q.Counters().Distrusted; got != 1 || f.q.stamps.tokenHint(f.q.now.Wall) <= far {
		t.Errorf("%d tokens are refused, and the next hint is %d, where two voters have named %d", got, f.q.stamps.tokenHint(f.q.now.Wall), far)
	}
}
