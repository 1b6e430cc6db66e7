package quorum

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func (b *bench) permit(permits uint16) vote.Number {
	return b.ask(RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Permit, Permits: permits}})
}

func (b *bench) slot(v vote.NodeID, n vote.Number, s vote.Serial, slot vote.Slot) {
	b.sends(v, vote.Message{Kind: vote.KindPromise, Number: n, Serial: s, Slot: slot, Token: 100})
}

// yielded returns the slots for which a voter was asked to exchange its vote, and forgets all
// messages to the voter.
func (b *bench) yielded(v vote.NodeID) (slots []vote.Slot) {
	for _, m := range b.asked(v, vote.KindYield) {
		slots = append(slots, m.Slot)
	}
	return slots
}

func TestAPermitIsWonByAMajorityForOneSlot(t *testing.T) {
	b := newBench(t, 5)
	b.all()
	n := b.permit(4)
	b.slot("v0", n, 1, 1)
	b.slot("v1", n, 1, 2)
	b.slot("v2", n, 1, 2)
	b.granted(n, false)
	// Three votes decide, and two votes are for slot 2: the third vote is moved to slot 2.
	if got := b.yielded("v0"); len(got) != 1 || got[0] != 2 {
		t.Fatalf("v0 was asked for %v", got)
	}
	b.slot("v3", n, 1, 3)
	b.granted(n, false)
	b.slot("v0", n, 2, 2)
	b.granted(n, true)
	if e := b.last(EventGranted); e.Slot != 2 {
		t.Fatalf("slot %d", e.Slot)
	}
	// A vote for another slot is moved even after the win, so that the lease rests on more than a
	// bare majority.
	if got := b.yielded("v3"); len(got) != 1 || got[0] != 2 {
		t.Fatalf("v3 was asked for %v", got)
	}
	b.slot("v4", n, 1, 4)
	if got := b.yielded("v4"); len(got) != 1 || got[0] != 2 {
		t.Fatalf("v4 was asked for %v", got)
	}
}

func TestASlotThatIsNotGivenIsBarredForAWhile(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.permit(2)
	b.slot("v0", n, 1, 1)
	b.slot("v1", n, 1, 2)
	if got := b.yielded("v1"); len(got) != 1 || got[0] != 1 {
		t.Fatalf("v1 was asked for %v", got)
	}
	b.slot("v1", n, 2, 2) // slot 1 belongs to a lease at v1
	if got := b.yielded("v1"); len(got) != 0 {
		t.Fatalf("v1 was asked for %v again", got)
	}
	// So v0 is asked for slot 2.
	if got := b.yielded("v0"); len(got) != 1 || got[0] != 2 {
		t.Fatalf("v0 was asked for %v", got)
	}
	// Slot 2 belongs to a lease at v0, too: neither vote can be moved for now.
	b.slot("v0", n, 2, 1)
	if a, c := b.yielded("v0"), b.yielded("v1"); len(a)+len(c) != 0 {
		t.Fatalf("asked for %v and %v", a, c)
	}
	// The leases may be over by the next refresh.
	b.pass(ttl / 5)
	if a, c := b.yielded("v0"), b.yielded("v1"); len(a)+len(c) != 1 {
		t.Fatalf("asked for %v and %v", a, c)
	}
	b.slot("v1", n, 3, 1)
	b.granted(n, true)
}

func TestTheWantedSlotIsInTheSync(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.permit(2)
	b.slot("v0", n, 1, 1)
	b.slot("v1", n, 1, 2)
	b.q.Link(b.now, b.place("v1"), vote.SessionID{Node: "v1", Incarnation: 5})
	b.drain()
	m := b.outbox["v1"]
	if e := m[len(m)-1].Entries; len(e) != 1 || e[0].Slot != 1 || e[0].Yielded != 1 || e[0].Serial != 0 {
		t.Fatalf("stated %+v", e)
	}
	b.answer("v1", vote.Entry{Number: n, Serial: 2, Slot: 1, Token: 100})
	b.granted(n, true)
}

// A yield to exchange the slot and the voter's inquiry may cross; the vote is given back once.
func TestAnInquiryThatCrossesAMoveIsAnsweredByTheMove(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.permit(2)
	b.slot("v0", n, 1, 1)
	b.slot("v1", n, 1, 2)
	b.sentTo("v1")
	b.sends("v1", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 1})
	if got := b.sentTo("v1"); got != "" {
		t.Fatalf("told %q", got)
	}
	b.settles("v1", vote.DigestOfRequest(n), b.q.peerOf("v1").sent)
}

func TestAVoteForAnotherSlotStandsBehindNothing(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.permit(3)
	b.slot("v0", n, 1, 1)
	b.slot("v1", n, 1, 1)
	b.granted(n, true)
	b.slot("v2", n, 1, 2)
	b.slot("v2", n, 2, 3) // slot 1 belongs to a lease at v2
	b.sends("v2", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 2, Token: 100})
	if set := b.q.requests[n].group.set; set != Set(0).With(0).With(1) {
		t.Fatalf("the voters %b stand behind a lease of slot 1", set)
	}
}

// A voter may vote for a slot and die while the request waits. Then this slot only seems to have a
// majority, while another slot may have one.
func TestASlotOfADeadVotersVoteDelaysNoRequest(t *testing.T) {
	b := as(t, "v0", 3)
	n := b.ask(RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Permit, Permits: 2}})
	promise := func(v vote.NodeID, s vote.Serial, slot vote.Slot) {
		b.sends(v, vote.Message{Kind: vote.KindPromise, Number: n, Serial: s, Slot: slot, Token: 1000})
	}
	promise("v2", 1, 1)
	b.q.Unlink(b.now, b.place("v2"))
	for range vote.RefreshesPerTTL + 1 { // v2 is gone until its vote is over
		b.pass(b.q.refreshAt.Sub(b.now.Fast))
		b.ack("v0", nil)
		b.ack("v1", nil)
	}
	promise("v0", 1, 1)
	b.sentTo("v1")
	promise("v1", 1, 2) // slot 1 belongs to another request at v1
	b.granted(n, false)
	if got := b.sentTo("v1"); got != "yield" {
		t.Fatalf("v1 was told %q", got)
	}
	b.sentTo("v0")
	promise("v1", 2, 2) // v1 can't move its vote
	if got := b.sentTo("v0"); got != "yield" {
		t.Fatalf("v0 was told %q", got)
	}
	promise("v0", 2, 2)
	b.granted(n, true)
}

// A vote can't be moved while the link to its voter is down, so the other votes move to the slot of
// this vote.
func TestAVoteThatCannotBeMovedDrawsTheOthers(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.permit(2)
	b.slot("v1", n, 1, 2)
	b.q.Unlink(b.now, b.place("v1"))
	b.slot("v0", n, 1, 1)
	if got := b.yielded("v0"); len(got) != 1 || got[0] != 2 {
		t.Fatalf("v0 was asked for %v", got)
	}
	b.slot("v0", n, 2, 2)
	b.granted(n, true)
}
