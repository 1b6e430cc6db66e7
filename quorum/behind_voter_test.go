package quorum

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A voter with a slow disk doesn't know yet that its node is a voter. The voter refuses to open a
// stream, and doesn't know the messages behind. The requester must not open one stream after
// another.
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

// A node with a wiped directory isn't a voter until the other voters have voted the node in, and
// needs lasting links for this. A requester that closed its link after each TTL kept such a node
// out for good.
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
