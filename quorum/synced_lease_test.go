package quorum

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Two busy answers of a full voter take the request out of the expected digest only once.
func TestAVoterThatIsFullTwiceKeepsTheDigest(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.sends("v0", vote.Message{Kind: vote.KindBusy, Number: n})
	b.sends("v0", vote.Message{Kind: vote.KindBusy, Number: n})
	b.sentTo("v0")
	b.pass(ttl / 5)
	if got := b.sentTo("v0"); !strings.Contains(got, "request") {
		t.Fatalf("v0 was told %q, and wasn't asked again", got)
	}
	// By now v0 has room for the request.
	b.trueAck("v0", vote.Digest{}.Plus(vote.DigestOfRequest(n)))
	if c := b.q.Counters().Mismatches; c != 0 {
		t.Errorf("%d mismatches: the expected digest takes the request out twice", c)
	}
}

// A sync names the slot of a lease: a voter without this knowledge could give the slot to another
// request.
func TestALeaseIsSyncedWithItsSlot(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.permit(2)
	b.slot("v0", n, 1, 2)
	b.slot("v1", n, 1, 2)
	b.granted(n, true)
	b.q.Unlink(b.now, b.place("v0"))
	b.sentTo("v0")
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
	all := b.asked("v0", vote.KindSync)
	if len(all) != 1 || len(all[0].Entries) != 1 || all[0].Entries[0].Slot != 2 {
		t.Errorf("the sync is %+v, want one entry with slot 2", all)
	}
}
