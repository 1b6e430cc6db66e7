package quorum

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A voter whose disk is slow doesn't know yet that it is one. It turns the opening away, and knows nothing of the stream that follows it. That must not
// have the requester open another stream at once, and another, for ever.
func TestAVoterThatDoesNotKnowYetIsLeftInPeaceUntilItDoes(t *testing.T) {
	e := vote.Electorate{Version: 1, Lineage: 1, Voters: []vote.Elector{{Name: "v", Dir: 7}}}
	now := vote.Now{Fast: vote.Instant(time.Second), Slow: vote.Instant(time.Second), Wall: 1}
	q := New(Config{Self: vote.SessionID{Node: "r", Life: 1}, Electorate: e, Following: true, TTL: time.Second}, now)
	voter := vote.SessionID{Node: "v", Life: 2}
	q.Link(now, 1, voter)
	opened := func() vote.Stream {
		out, _ := q.Drain(nil, nil)
		i := slices.IndexFunc(out, func(o vote.Outbound) bool { return o.Message.Kind == vote.KindOpen })
		if i < 0 {
			return 0
		}
		return out[i].Message.Stream
	}
	stream := opened()
	if stream == 0 {
		t.Fatal("nothing was opened")
	}
	q.Deliver(now, 1, voter, &vote.Message{Kind: vote.KindRefused, Stream: stream, Reason: vote.ReasonNotVoter})
	q.Deliver(now, 1, voter, &vote.Message{Kind: vote.KindUnknown, Stream: stream})
	if s := opened(); s != 0 {
		t.Fatalf("stream %d was opened at a voter that doesn't know that it is one", s)
	}
	q.Goes(now, 1, 1)
	if s := opened(); s <= stream {
		t.Errorf("it knows now, and stream %d is open", s)
	}
}
