package quorum

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// b, c and d, of five old voters, have confirmed the end of a lease. Two old voters and one new one haven't heard of that: they block the new half of a joint
// electorate, and say nothing of the old one. (Seed 469988856 of worlds with a dynamic electorate in which words linger.)
func TestATryLockIsNotToldTakenByVotersThatMayAllBeLate(t *testing.T) {
	f := follow(t, "1: a b c d e")
	f.reelect("2: a e f (a b c d e)")
	f.link("f")
	for range 10 { // the electorate before counts for a TTL; then the joint one alone
		f.pass(ttl / 10)
		f.ack("a b c d e f")
	}
	try := f.lock(true)
	taken := func(list string) {
		for _, v := range strings.Fields(list) {
			f.say(v, vote.Message{Kind: vote.KindTaken, Number: try, Token: 7})
		}
	}
	taken("a e f")
	f.want(try, EventNone)
	taken("b") // now each majority of the old voters has one that tells of the lease
	f.want(try, EventFailed)
	if e := f.last(EventFailed); e.Wait.Reason != WaitHeld {
		t.Errorf("it fails for reason %v", e.Wait.Reason)
	}
}
