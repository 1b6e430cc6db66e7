package quorum

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// office is a requester with voters that grant every request at once and in order, so that
// measurements show the cost of the requester alone.
type office struct {
	tb     testing.TB
	q      *Requester
	now    vote.Now
	clerks []clerk
	out    []vote.Outbound
	events []Event

	granted, released vote.Number // of the last event of each kind
	words             int         // messages sent by the requester
	token             vote.Token
}

// clerk is a voter for which the serial of a vote is the number of the request. So a clerk needs to
// remember only a digest.
type clerk struct {
	id                vote.SessionID
	stream            vote.Stream
	processed, pushed uint64
	sum               vote.Digest
}

func newOffice(tb testing.TB, voters int) *office {
	o := &office{tb: tb, now: vote.Now{Fast: 1e12, Slow: 1e12, Wall: 1_700_000_000_000_000}}
	var names []vote.NodeID
	for i := range voters {
		names = append(names, vote.NodeID("v"+strconv.Itoa(i)))
		o.clerks = append(o.clerks, clerk{id: vote.SessionID{Node: names[i], Incarnation: vote.Incarnation(i + 1)}})
	}
	e, err := Fixed(names)
	if err != nil {
		tb.Fatal(err)
	}
	o.q = New(Config{Self: vote.SessionID{Node: "me", Incarnation: 1}, Electorate: e, TTL: 10 * time.Second}, o.now)
	for i := range o.clerks {
		o.q.Link(o.now, vote.Conn(i+1), o.clerks[i].id)
		o.settle()
	}
	if !o.q.Ready() {
		tb.Fatal("not ready")
	}
	return o
}

// settle answers the requester's messages until there are no more.
func (o *office) settle() {
	for {
		o.out, o.events = o.q.TakeMessages(o.out[:0]), o.q.TakeEvents(o.events[:0])
		if len(o.out) == 0 && len(o.events) == 0 {
			return
		}
		for i := range o.events {
			switch e := &o.events[i]; e.Kind {
			case EventGranted:
				o.granted = e.Number
			case EventReleased:
				o.released = e.Number
			case EventLost, EventFailed:
				o.tb.Fatalf("%+v", e)
			}
		}
		for i := range o.out {
			o.hear(o.out[i].Conn, &o.out[i].Message)
		}
		clear(o.out)
		clear(o.events)
	}
}

func (o *office) hear(conn vote.Conn, m *vote.Message) {
	o.words++
	c := &o.clerks[conn-1]
	var say vote.Message
	switch m.Kind {
	case vote.KindOpen:
		c.stream, c.processed, c.pushed = m.Stream, 0, 0
		return
	case vote.KindSync:
		if !m.End || len(m.Entries) > 0 {
			o.tb.Fatal("a sync: the voters' sums are wrong")
		}
		say = vote.Message{Kind: vote.KindAnswer, End: true, Sent: o.now.Fast, Incarnation: c.id.Incarnation, Generation: 1, Wall: o.now.Wall}
	case vote.KindRefresh:
		say = vote.Message{
			Kind: vote.KindAck, Sent: m.Sent, Incarnation: c.id.Incarnation, Generation: 1, Processed: c.processed, Pushed: c.pushed,
			Count: c.sum.Count, Hash: c.sum.Hash, Wall: o.now.Wall, Clock: o.now.Slow,
		}
	case vote.KindRequest:
		o.token = max(o.token, m.TokenHint)
		c.sum = c.sum.Plus(vote.DigestOfRequest(m.Number)).Plus(vote.DigestOfVote(vote.Serial(m.Number)))
		c.processed++
		c.pushed++
		say = vote.Message{Kind: vote.KindPromise, Number: m.Number, Serial: vote.Serial(m.Number), Token: o.token}
	case vote.KindRelease:
		c.sum = c.sum.Minus(vote.DigestOfRequest(m.Number)).Minus(vote.DigestOfVote(vote.Serial(m.Number)))
		c.processed++
		c.pushed++
		say = vote.Message{Kind: vote.KindReleased, Number: m.Number}
	default:
		c.processed++
		return
	}
	say.Stream = c.stream
	o.q.Deliver(o.now, conn, c.id, &say)
}

// pass lets the time between two refreshes pass.
func (o *office) pass() {
	d := o.q.every()
	o.now.Fast, o.now.Slow, o.now.Wall = o.now.Fast.Add(d), o.now.Slow.Add(d), o.now.Wall+vote.Micros(d.Microseconds())
	for o.q.Next() <= o.now.Fast {
		o.q.Tick(o.now)
		o.settle()
	}
}

func (o *office) lock(key vote.Key) vote.Number {
	n, err := o.q.Lock(o.now, Exclusive(key, false))
	if err != nil {
		o.tb.Fatal(err)
	}
	o.settle()
	if o.granted != n {
		o.tb.Fatal("not granted")
	}
	return n
}

func (o *office) unlock(n vote.Number) {
	o.q.Release(o.now, n)
	o.settle()
	if o.released != n {
		o.tb.Fatal("not released")
	}
}

// hold locks the keys, with a refresh after every 1,000 keys.
func (o *office) hold(keys []vote.Key) []vote.Number {
	held := make([]vote.Number, len(keys))
	for i, k := range keys {
		held[i] = o.lock(k)
		if i%1000 == 999 {
			o.pass()
		}
	}
	return held
}

func manyKeys(n int) []vote.Key {
	keys := make([]vote.Key, n)
	for i := range keys {
		keys[i] = vote.Key(fmt.Sprintf("a/key/of/thirty-two/bytes%07d", i))
	}
	return keys
}

// BenchmarkBallot measures a request from Lock to the grant and to the confirmed release, with the
// voters' answers.
func BenchmarkBallot(b *testing.B) {
	for _, voters := range []int{3, 5, 7} {
		b.Run("voters="+strconv.Itoa(voters), func(b *testing.B) {
			o := newOffice(b, voters)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				o.unlock(o.lock("a-key-of-thirty-two-bytes-length"))
				if i%100 == 0 {
					o.pass()
				}
			}
		})
	}
}

// BenchmarkRefresh measures one refresh of the sessions at all voters. The cost doesn't depend on
// the number of held leases.
func BenchmarkRefresh(b *testing.B) {
	for _, held := range []int{0, 100_000} {
		b.Run("held="+strconv.Itoa(held), func(b *testing.B) {
			o := newOffice(b, 3)
			o.hold(manyKeys(held))
			b.ReportAllocs()
			for b.Loop() {
				o.pass()
			}
		})
	}
}
