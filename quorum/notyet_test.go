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
	q := New(Config{Self: vote.SessionID{Node: "r", Incarnation: 1}, Electorate: e, Dynamic: true, TTL: time.Second}, now)
	voter := vote.SessionID{Node: "v", Incarnation: 2}
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
	q.AckEpoch(now, 1, 1)
	if s := opened(); s <= stream {
		t.Errorf("it knows now, and stream %d is open", s)
	}
}

// A node whose directory was wiped isn't a voter until the others have voted it in, for which they need
// connections to it that last. A requester that hung up on it after each TTL kept it out for good.
func TestAVoterThatAnswersThatItIsNoneIsNotHungUpOn(t *testing.T) {
	e := vote.Electorate{Version: 1, Lineage: 1, Voters: []vote.Elector{{Name: "v", Dir: 7}}}
	now := vote.Now{Fast: vote.Instant(time.Second), Slow: vote.Instant(time.Second), Wall: 1}
	q := New(Config{Self: vote.SessionID{Node: "r", Incarnation: 1}, Electorate: e, Dynamic: true, TTL: ttl}, now)
	voter := vote.SessionID{Node: "v", Incarnation: 2}
	q.Link(now, 1, voter)
	opened, closed, answers := 0, 0, true
	run := func(d time.Duration) {
		for end := now.Fast.Add(d); now.Fast < end; {
			out, _ := q.Drain(nil, nil)
			for _, o := range out {
				switch {
				case o.Close:
					closed++
				case o.Message.Kind == vote.KindOpen:
					opened++
					if answers {
						q.Deliver(now, 1, voter, &vote.Message{
							Kind: vote.KindRefused, Stream: o.Message.Stream, Reason: vote.ReasonNotVoter,
						})
					}
				}
			}
			now.Fast, now.Slow = now.Fast.Add(ttl/10), now.Slow.Add(ttl/10)
			q.Tick(now)
		}
	}
	run(10 * ttl)
	if closed != 0 {
		t.Errorf("a voter that answers was hung up on %d times", closed)
	}
	if opened < 5 || opened > 12 {
		t.Errorf("in ten TTLs it was asked %d times whether it is a voter", opened)
	}
	answers = false
	run(3 * ttl)
	if closed == 0 {
		t.Error("a voter that has stopped answering wasn't hung up on")
	}
}
