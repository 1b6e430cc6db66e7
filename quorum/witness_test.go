package quorum

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Of five old voters, b, c and d have confirmed the end of a lease. Two old voters and a new voter
// haven't received the release: these three block the new half of a joint electorate, but prove
// nothing about the old half. (Found by worlds with a dynamic electorate and lingering
// messages.)
func TestATryLockIsNotToldTakenByVotersThatMayAllBeLate(t *testing.T) {
	f := follow(t, "1: a b c d e")
	f.reconfigureTo("2: a e f (a b c d e)")
	f.link("f")
	for range 10 { // the previous electorate counts for a TTL, then the joint electorate alone
		f.pass(ttl / 10)
		f.ack("a b c d e f")
	}
	try := f.lock(true)
	taken := func(list string) {
		for _, v := range strings.Fields(list) {
			f.sends(v, vote.Message{Kind: vote.KindHeld, Number: try, Token: 7})
		}
	}
	taken("a e f")
	f.want(try, EventNone)
	// Now each majority of the old voters includes a voter that reports the lease.
	taken("b")
	f.want(try, EventFailed)
	if e := f.last(EventFailed); e.Wait.Reason != WaitHeld {
		t.Errorf("it fails for reason %v", e.Wait.Reason)
	}
}
