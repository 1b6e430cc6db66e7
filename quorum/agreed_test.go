package quorum

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// dies has the third of three voters vote for a new request and die; then time passes until the
// vote isn't covered any more. The results are the request and a function that lets more than a TTL
// pass while the other two voters acknowledge refreshes.
func dies(b *bench, token vote.Token) (n vote.Number, refreshed func()) {
	n = b.put("k")
	b.pass(maxHedgeDelay) // all voters are asked
	b.promise("v2", n, 1, token)
	b.q.Unlink(b.now, b.place("v2"))
	refreshed = func() {
		for range vote.RefreshesPerTTL + 1 {
			b.pass(b.q.refreshAt.Sub(b.now.Fast))
			b.ack("v0", nil)
			b.ack("v1", nil)
		}
	}
	refreshed()
	return n, refreshed
}

// A voter may vote and die while the request waits. Then the token of the dead voter has no covered
// majority, but another voter's token can have a majority.
func TestAMajorityThatAgreesButIsNotCoveredDelaysNoRequest(t *testing.T) {
	b := as(t, "v0", 3)
	n, refreshed := dies(b, 1000)
	b.promise("v1", n, 1, 5000)
	b.sentTo("v0")
	b.promise("v0", n, 1, 1000)
	b.granted(n, false)
	if got := b.sentTo("v0"); got != "confirm" {
		refreshed()
		t.Fatalf("v0 was told %q, and %q in the next TTL", got, b.sentTo("v0"))
	}
	b.sends("v0", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 1, Token: 5000})
	b.granted(n, true)
	if e := b.last(EventGranted); e.Token != vote.Token(5000).First() {
		t.Errorf("token %d", e.Token)
	}
}

// The same as above, but the remaining voter has proposed less than the others.
func TestAVoterThatProposedLessIsBroughtToTheTokenOfAMajorityThatIsNotCovered(t *testing.T) {
	b := as(t, "v0", 3)
	n, refreshed := dies(b, 5000)
	b.promise("v0", n, 1, 5000)
	b.sentTo("v1")
	b.promise("v1", n, 1, 1000)
	b.granted(n, false)
	if got := b.sentTo("v1"); got != "confirm" {
		refreshed()
		t.Fatalf("v1 was told %q, and %q in the next TTL", got, b.sentTo("v1"))
	}
	b.sends("v1", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 1, Token: 5000})
	b.granted(n, true)
}
