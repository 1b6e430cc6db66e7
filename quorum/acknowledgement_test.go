package quorum

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The ordered messages lag behind the refresh lane by a quarter of a TTL, more than the time
// between refreshes.
func TestAcknowledgementsThatAlwaysOvertakeStillExtend(t *testing.T) {
	b := newBench(t, 1)
	b.link("v0")
	held := b.lock(false)
	b.promise("v0", held, 1, 100)
	b.granted(held, true)
	type msg struct {
		at vote.Instant
		m  vote.Message
	}
	var lane []msg
	p := b.q.peerOf("v0")
	pushed, serial := p.received, vote.Serial(1)
	led := vote.DigestOfRequest(held).Plus(vote.DigestOfVote(1))
	start := b.now.Fast
	last := p.refreshed
	for b.now.Fast < start.Add(2*ttl) {
		// A lock every 10 ms, promised by the voter at once; the promise is on the way for 250 ms.
		n, _ := b.q.Lock(b.now, Exclusive(vote.Key(fmt.Sprint("x", serial)), false))
		b.drain()
		serial++
		pushed++
		led = led.Plus(vote.DigestOfRequest(n)).Plus(vote.DigestOfVote(serial))
		lane = append(lane, msg{b.now.Fast.Add(ttl / 4), vote.Message{Kind: vote.KindPromise, Number: n, Serial: serial, Token: vote.Token(100 + serial)}})
		if p.refreshed != last { // a refresh was sent: the voter acknowledges at once
			last = p.refreshed
			b.sends("v0", vote.Message{Kind: vote.KindAck, Sent: last, Incarnation: 5, Generation: b.gen, Processed: p.sent, Pushed: pushed, Count: led.Count, Hash: led.Hash, Wall: b.now.Wall})
		}
		for len(lane) > 0 && lane[0].at <= b.now.Fast {
			b.sends("v0", lane[0].m)
			lane = lane[1:]
		}
		b.pass(10 * time.Millisecond)
		if e := b.last(EventLost); e != nil {
			t.Fatalf("lost after %v; mismatches %d; v0 %v", b.now.Fast.Sub(start), b.q.Counters().Mismatches, p.state(b.now, false))
		}
		for i, m := range b.outbox["v0"] {
			if m.Kind == vote.KindNone || m.Kind == vote.KindOpen && i > 0 {
				t.Fatalf("hung up or restated after %v: %+v, mismatches %d text %q", b.now.Fast.Sub(start), m, b.q.Counters().Mismatches, p.text)
			}
		}
	}
}

func TestAnAcknowledgementReadAfterAPauseMovesNoStamp(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	b.pass(ttl / 5)
	wall := b.now.Wall
	b.now.Fast, b.now.Slow, b.now.Wall = b.now.Fast.Add(time.Hour), b.now.Slow.Add(time.Hour), b.now.Wall+3600e6
	for _, v := range b.names[:2] {
		b.ack(v, func(m *vote.Message) { m.Wall = wall })
	}
	b.outbox["v2"] = nil
	b.lock(false)
	for _, m := range b.outbox["v2"] {
		if off := time.Duration(m.Time-b.now.Wall) * time.Microsecond; m.Kind == vote.KindRequest && off.Abs() > vote.Skew {
			t.Fatalf("stamped %v from its own (and the true) time", off)
		}
	}
}

func TestAVoterThatIsAnsweringIsNotSilent(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	b.q.Unlink(b.now, b.place("v0"))
	b.sentTo("v0")
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
	for range 6 {
		b.pass(ttl / 10)
		b.sends("v0", vote.Message{Kind: vote.KindAnswer, Entries: []vote.Entry{{Number: 99, Serial: 1}}})
	}
	if p := b.q.peerOf("v0"); !p.up() {
		t.Fatalf("hung up while the answer was coming in: %s", p.text)
	}
}

func TestALeaseKeepsItsInstantWhenAVoterForgets(t *testing.T) {
	for _, c := range []struct {
		name   string
		joins  bool // a third voter votes for the lease in time
		passed time.Duration
		lost   bool
	}{
		{"what the earlier life promised stands", false, ttl * 3 / 4, false},
		{"and ends when it was to end", false, ttl, true},
		{"unless another voter joins by then", true, ttl * 5 / 4, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 3)
			b.all()
			n := b.lock(false)
			b.promise("v0", n, 1, 100)
			b.promise("v1", n, 1, 100)
			b.granted(n, true)
			b.q.Unlink(b.now, b.place("v1"))
			b.q.Link(b.now, b.place("v1"), vote.SessionID{Node: "v1", Incarnation: 6})
			b.q.Deliver(b.now, b.place("v1"), vote.SessionID{Node: "v1", Incarnation: 6}, &vote.Message{
				Kind: vote.KindAnswer, Stream: 2, End: true, Sent: b.q.peerOf("v1").syncSent, Incarnation: 6, Generation: 1, Quiet: ttl, Wall: b.now.Wall,
			})
			if c.joins {
				b.promise("v2", n, 1, 100)
			}
			for passed := time.Duration(0); passed < c.passed; passed += ttl / 20 {
				b.pass(ttl / 20)
				b.ack("v0", nil)
				b.ack("v2", nil)
			}
			if lost := b.last(EventLost) != nil; lost != c.lost {
				t.Fatalf("lost: %v after %v", lost, c.passed)
			}
		})
	}
}
