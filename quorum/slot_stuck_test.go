package quorum

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The majority for a slot may include a voter that has died and can't confirm the token. Then the
// votes of the other voters are moved to this slot, too: a waiting request must not depend on a
// single voter.
func TestVotesAreMovedToASlotWhoseMajorityCannotAgree(t *testing.T) {
	b := as(t, "v0", 3)
	n := b.permit(2)
	promise := func(v vote.NodeID, s vote.Serial, slot vote.Slot, token vote.Token) {
		b.sends(v, vote.Message{Kind: vote.KindPromise, Number: n, Serial: s, Slot: slot, Token: token})
	}
	promise("v2", 1, 1, 1000)
	b.q.Unlink(b.now, b.place("v2")) // for good
	promise("v0", 1, 1, 5000)
	b.sentTo("v1")
	promise("v1", 1, 2, 5000)
	refreshed := func() {
		for range 2 * vote.RefreshesPerTTL {
			b.pass(b.q.refreshAt.Sub(b.now.Fast))
			b.ack("v0", nil)
			b.ack("v1", nil)
		}
	}
	if got := b.yielded("v1"); len(got) != 1 || got[0] != 1 {
		refreshed()
		t.Fatalf("v1 was asked for %v, and for %v in two TTLs", got, b.yielded("v1"))
	}
	promise("v1", 2, 1, 5000)
	b.granted(n, true)
}
