package quorum

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// confirms returns the tokens that a voter was asked to confirm, and forgets all messages to the
// voter.
func (b *bench) confirms(v vote.NodeID) (tokens []vote.Token) {
	for _, m := range b.asked(v, vote.KindConfirm) {
		tokens = append(tokens, m.Token)
	}
	return tokens
}

// A voter whose answer to a sync is under way isn't asked to confirm a token: the answer has the
// vote's token of before, and the requester would forget what it asked for. Else the tally might
// settle on a smaller token, which the voter, having confirmed the larger one, has given to another
// reader.
func TestNoTokenIsConfirmedBeforeTheAnswerToASync(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.ask(RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Shared}})
	b.pass(maxHedgeDelay) // all voters are asked
	b.promise("v0", n, 1, 200)
	b.sends("v0", vote.Message{Kind: vote.KindUnknown})
	b.promise("v2", n, 1, 232)
	if got := b.confirms("v0"); len(got) != 0 {
		t.Errorf("v0 is asked to confirm %d before its answer", got)
	}
	b.sends("v2", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 1}) // v2's vote is given back
	b.answer("v0", vote.Entry{Number: n, Serial: 1, Token: 200})
	b.promise("v1", n, 1, 180)
	b.granted(n, false)
	if got := b.confirms("v1"); len(got) != 1 || got[0] != 200 {
		t.Errorf("v1 is asked to confirm %d", got)
	}
	if got := b.confirms("v0"); len(got) != 0 {
		t.Errorf("v0 is asked to confirm %d", got)
	}
}

// The confirmation is sent once the voter has answered.
func TestATokenIsConfirmedOnceTheSyncIsAnswered(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.ask(RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Shared}})
	b.pass(maxHedgeDelay)
	b.promise("v0", n, 1, 200)
	b.sends("v0", vote.Message{Kind: vote.KindUnknown})
	b.promise("v2", n, 1, 232)
	b.confirms("v0")
	b.answer("v0", vote.Entry{Number: n, Serial: 1, Token: 200})
	if got := b.confirms("v0"); len(got) != 1 || got[0] != 232 {
		t.Errorf("v0 is asked to confirm %d", got)
	}
}

// A voter that has restarted numbers its votes anew, so a vote for another slot may have the number
// of the former vote. It isn't counted for the lease's slot.
func TestAVoteOfTheSameNumberForAnotherSlotIsNotTheLeases(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.permit(4)
	for _, v := range b.names {
		b.slot(v, n, 2, 2)
	}
	b.granted(n, true)
	b.sentTo("v0")
	b.gen++
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 6})
	b.q.Deliver(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 6}, &vote.Message{
		Kind: vote.KindAnswer, Stream: b.q.peerOf("v0").stream, Entries: []vote.Entry{{Number: n, Serial: 2, Slot: 4, Token: 100}},
		End: true, Sent: b.q.peerOf("v0").syncSent, Incarnation: 6, Generation: b.gen, Wall: b.now.Wall,
	})
	if got := b.yielded("v0"); len(got) != 1 || got[0] != 2 {
		t.Errorf("v0 is asked for the slots %v", got)
	}
}
