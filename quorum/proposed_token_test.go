package quorum

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A voter that was asked to confirm a token may have recorded the token, even if the voter's answer
// hasn't arrived. If the request won with a smaller token, the voter could meanwhile give the
// smaller token to another reader, and two readers had the same token (found by worlds with
// dynamic membership, while the electorate wasn't changing).
func TestAVoteThatWasAskedForATokenCountsForNoSmallerOne(t *testing.T) {
	for _, broken := range []bool{false, true} {
		b := newBench(t, 3)
		b.all()
		n, err := b.q.Lock(b.now, RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Shared}})
		if err != nil {
			t.Fatal(err)
		}
		b.promise("v2", n, 1, 84)
		b.promise("v1", n, 1, 100) // v2 is asked for 100
		b.sends("v2", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 1, Token: 200})
		b.promise("v0", n, 1, 100) // v0 and v1 are asked for 200
		if e := b.last(EventGranted); e != nil {
			t.Fatalf("%+v", e)
		}
		both := []vote.NodeID{"v0", "v1"}
		if broken { // v0 and v1 have recorded token 200, and their answers are lost
			for _, v := range both {
				b.q.Unlink(b.now, b.place(v))
			}
			for _, v := range both {
				b.q.Link(b.now, b.place(v), vote.SessionID{Node: v, Incarnation: 5})
			}
		}
		// The vote of v2 is yielded, and the votes are counted anew.
		b.sends("v2", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 1})
		b.sends("v2", vote.Message{Kind: vote.KindHeld, Number: n, Token: 50})
		b.pass(time.Millisecond)
		if e := b.last(EventGranted); e != nil {
			t.Fatalf("it wins with token %d while v0 and v1 may have 200 for it", e.Token)
		}
		for _, v := range both {
			if broken {
				b.answer(v, vote.Entry{Number: n, Serial: 1, Token: 200})
			} else {
				b.sends(v, vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 1, Token: 200})
			}
		}
		if e := b.last(EventGranted); e == nil || e.Token != vote.Token(200).First() {
			t.Fatalf("%+v", e)
		}
	}
}
