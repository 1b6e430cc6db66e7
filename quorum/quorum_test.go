package quorum

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const ttl = time.Second

// bench is a requester with the voters' part played by the test.
type bench struct {
	t      *testing.T
	q      *Requester
	now    vote.Now
	names  []vote.NodeID
	outbox map[vote.NodeID][]vote.Message // sent to each voter, and not read by the test yet
	events []Event
	gen    vote.Generation
	sink   func([]vote.Outbound, []Event) // also gets all messages and events, if set
}

func newBench(t *testing.T, n int) *bench {
	b := &bench{t: t, now: vote.Now{Fast: 1e9, Slow: 1e9, Wall: 1_000_000}, outbox: map[vote.NodeID][]vote.Message{}, gen: 1}
	for i := range n {
		b.names = append(b.names, vote.NodeID(fmt.Sprintf("v%d", i)))
	}
	e, err := Fixed(b.names)
	if err != nil {
		t.Fatal(err)
	}
	b.q = New(Config{Self: vote.SessionID{Node: "me", Incarnation: 1}, Electorate: e, TTL: ttl}, b.now)
	return b
}

func (b *bench) place(v vote.NodeID) vote.Conn { return vote.Conn(b.q.peerOf(v).place) + 1 }

func (b *bench) drain() {
	out, ev := b.q.Drain(nil, nil)
	if b.sink != nil {
		b.sink(out, ev)
	}
	b.events = append(b.events, ev...)
	for _, o := range out {
		v := b.names[o.Conn-1]
		if o.Close {
			b.outbox[v] = append(b.outbox[v], vote.Message{Kind: vote.KindNone})
			continue
		}
		b.outbox[v] = append(b.outbox[v], o.Message)
	}
}

// link opens a link to a voter, and answers the sync with the given votes.
func (b *bench) link(v vote.NodeID, votes ...vote.Entry) {
	b.q.Link(b.now, b.place(v), vote.SessionID{Node: v, Incarnation: 5})
	b.answer(v, votes...)
}

func (b *bench) answer(v vote.NodeID, votes ...vote.Entry) {
	b.sends(v, vote.Message{Kind: vote.KindAnswer, Entries: votes, End: true, Sent: b.q.peerOf(v).syncSent, Incarnation: 5, Generation: b.gen, Wall: b.now.Wall})
}

func (b *bench) sends(v vote.NodeID, m vote.Message) {
	if m.Stream == 0 {
		m.Stream = b.q.peerOf(v).stream
	}
	b.q.Deliver(b.now, b.place(v), vote.SessionID{Node: v, Incarnation: 5}, &m)
	b.drain()
}

// sentTo returns the kinds of the messages sent to a voter since the last call.
func (b *bench) sentTo(v vote.NodeID) string {
	b.drain()
	var kinds []string
	for _, m := range b.outbox[v] {
		kinds = append(kinds, m.Kind.String())
	}
	b.outbox[v] = nil
	return strings.Join(kinds, " ")
}

func (b *bench) all(votes ...vote.Entry) {
	for _, v := range b.names {
		b.link(v, votes...)
		b.sentTo(v)
	}
}

func (b *bench) lock(try bool) vote.Number {
	n, err := b.q.Lock(b.now, Exclusive("k", try))
	if err != nil {
		b.t.Fatal(err)
	}
	b.drain()
	return n
}

func (b *bench) promise(v vote.NodeID, n vote.Number, s vote.Serial, t vote.Token) {
	b.sends(v, vote.Message{Kind: vote.KindPromise, Number: n, Serial: s, Token: t})
}

func (b *bench) last(kind EventKind) *Event {
	b.drain()
	for i := len(b.events) - 1; i >= 0; i-- {
		if b.events[i].Kind == kind {
			return &b.events[i]
		}
	}
	return nil
}

func (b *bench) pass(d time.Duration) {
	b.now.Fast, b.now.Slow, b.now.Wall = b.now.Fast.Add(d), b.now.Slow.Add(d), b.now.Wall+vote.Micros(d.Microseconds())
	b.q.Tick(b.now)
	b.drain()
}

func (b *bench) granted(n vote.Number, want bool) {
	b.t.Helper()
	got := false
	b.drain()
	for _, e := range b.events {
		got = got || e.Kind == EventGranted && e.Number == n
	}
	if got != want {
		b.t.Fatalf("granted: %v, want %v", got, want)
	}
}

func TestAMajorityForOneTokenWins(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 1, 100)
	b.granted(n, false)
	b.promise("v1", n, 1, 100)
	b.granted(n, true)
	if e := b.last(EventGranted); e.Token != vote.Token(100).First() {
		t.Fatalf("token %d", e.Token)
	}
}

func TestVotesForDifferentTokensDontAddUpBeforeTheyAreConfirmed(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 1, 100)
	b.sentTo("v0")
	b.promise("v1", n, 1, 105)
	b.granted(n, false)
	if got := b.sentTo("v0"); got != "confirm" {
		t.Fatalf("v0 was told %q", got)
	}
	b.sends("v0", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 1, Token: 105})
	b.granted(n, true)
	if e := b.last(EventGranted); e.Token != vote.Token(105).First() {
		t.Fatalf("token %d", e.Token)
	}
}

func TestALateSerialIsNotCounted(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 4, 100)
	b.sentTo("v0")
	b.sends("v0", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 4})
	if got := b.sentTo("v0"); got != "yield" {
		t.Fatalf("an inquiry was answered by %q", got)
	}
	b.promise("v0", n, 4, 100)
	b.promise("v0", n, 3, 100)
	b.sends("v0", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 4, Token: 100})
	b.promise("v1", n, 1, 100)
	b.granted(n, false)
	b.promise("v0", n, 5, 100)
	b.granted(n, true)
}

func TestOneThatHasWonDoesNotYield(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	b.granted(n, true)
	b.sentTo("v0")
	b.sends("v0", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 1})
	if got := b.sentTo("v0"); got != "confirm" {
		t.Fatalf("told %q", got)
	}
}

func TestALeaseEndsWhenItsOwnVotersAreNoLongerCovered(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	b.granted(n, true)
	// v2 never voted for the request. Acknowledgements of v0 and v2 prove nothing.
	for range 8 {
		b.pass(ttl / 5)
		for _, v := range []vote.NodeID{"v0", "v2"} {
			b.ack(v, nil)
		}
	}
	if e := b.last(EventLost); e == nil || e.Number != n {
		t.Fatalf("still held 1.6 TTLs after v1 was last heard of")
	}
	before := len(b.events)
	b.ack("v0", nil)
	b.ack("v1", nil)
	for _, e := range b.events[before:] {
		if e.Kind == EventGranted || e.Kind == EventMoved {
			t.Fatalf("a lost lease came back: %+v", e)
		}
	}
}

// ack acknowledges the newest refresh with the expected digest; change may alter the message.
func (b *bench) ack(v vote.NodeID, change func(*vote.Message)) {
	p := b.q.peerOf(v)
	if !p.up() || !p.answered {
		return
	}
	// The expected digest when all sent messages are processed. TestTheExpectedDigest tests settle
	// by itself.
	exp := p.digest.base
	for _, c := range p.digest.sent {
		exp = exp.Plus(c.delta)
	}
	for _, c := range p.digest.received {
		exp = exp.Plus(c.delta)
	}
	m := vote.Message{
		Kind: vote.KindAck, Sent: p.refreshed, Incarnation: 5, Generation: b.gen, Processed: p.sent, Pushed: p.received,
		Count: exp.Count, Hash: exp.Hash, Wall: b.now.Wall,
	}
	if change != nil {
		change(&m)
	}
	b.sends(v, m)
}

func TestAcknowledgementsExtendOnlyWhatBothSidesAgreeOn(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*vote.Message)
		extends bool
		told    string
	}{
		{"all agrees", nil, true, ""},
		{"another generation", func(m *vote.Message) { m.Generation++ }, false, "open sync"},
		{"another life", func(m *vote.Message) { m.Incarnation++ }, false, "open sync"},
		{"one request too few", func(m *vote.Message) { m.Count-- }, false, "open sync"},
		{"another hash", func(m *vote.Message) { m.Hash ^= 1 }, false, "open sync"},
		{"an echo of the future", func(m *vote.Message) { m.Sent += 1e9 }, false, ""},
		{"an earlier stream", func(m *vote.Message) { m.Stream = 77 }, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 3)
			b.all()
			n := b.lock(false)
			for _, v := range b.names {
				b.promise(v, n, 1, 100)
			}
			b.pass(ttl / 5)
			b.sentTo("v0")
			before := b.q.peerOf("v0").validity.newest
			b.ack("v0", c.change)
			if got := b.q.peerOf("v0").validity.newest > before; got != c.extends {
				t.Errorf("extended: %v", got)
			}
			if got := b.sentTo("v0"); got != c.told {
				t.Errorf("told %q, want %q", got, c.told)
			}
		})
	}
}

func TestTheExpectedDigest(t *testing.T) {
	var b expectedDigest
	b.addSent(1, vote.DigestOfRequest(1))
	// Released, before the promise arrives.
	b.addSent(2, vote.Digest{}.Minus(vote.DigestOfRequest(1)))
	b.addSent(3, vote.DigestOfRequest(2))
	b.addReceived(1, vote.DigestOfVote(7))
	b.amend(2, vote.Digest{}.Minus(vote.DigestOfVote(7)))
	if got, want := b.settle(1, 1), vote.DigestOfRequest(1).Plus(vote.DigestOfVote(7)); got != want {
		t.Errorf("request 1 with its vote: %v, want %v", got, want)
	}
	b.addReceived(2, vote.DigestOfVote(8))
	if got := b.settle(2, 1); got != (vote.Digest{}) {
		t.Errorf("released: %v", got)
	}
	if got, want := b.settle(3, 2), vote.DigestOfRequest(2).Plus(vote.DigestOfVote(8)); got != want {
		t.Errorf("request 2 with its vote: %v, want %v", got, want)
	}
	if len(b.sent)+len(b.received) != 0 {
		t.Errorf("the expected digest keeps what is settled")
	}
}

func TestAnAcknowledgementThatOvertakesWaits(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.pass(ttl / 5)
	p := b.q.peerOf("v0")
	before := p.validity
	want := vote.DigestOfRequest(n).Plus(vote.DigestOfVote(3))
	b.sends("v0", vote.Message{Kind: vote.KindAck, Sent: p.refreshed, Incarnation: 5, Generation: 1, Processed: 1, Pushed: 1, Count: want.Count, Hash: want.Hash})
	if p.validity != before {
		t.Fatal("extended before the promise it speaks of has come")
	}
	b.promise("v0", n, 3, 100)
	if p.validity == before {
		t.Fatal("not extended when the promise had come")
	}
}

func TestVotesThatTheAnswerDoesNotListAreDropped(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 1, 100)
	b.q.Unlink(b.now, b.place("v0"))
	b.gen++
	b.link("v0") // another session, without the vote
	b.gen--
	b.promise("v1", n, 1, 100)
	b.granted(n, false)
}

func TestAVoteThatTheAnswerListsCountsThoughItsPromiseWasLost(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.q.Unlink(b.now, b.place("v0"))
	b.link("v0", vote.Entry{Number: n, Serial: 9, Token: 100})
	b.promise("v1", n, 1, 100)
	b.granted(n, true)
}

func TestAReleaseIsConfirmedBySyncsToo(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	b.q.Unlink(b.now, b.place("v1"))
	b.q.Release(b.now, n)
	b.sends("v0", vote.Message{Kind: vote.KindReleased, Number: n})
	if b.last(EventReleased) != nil {
		t.Fatal("one of three confirmed, and the release is called done")
	}
	b.link("v1")
	if e := b.last(EventReleased); e == nil || e.Wait.Reason != WaitNone {
		t.Fatalf("%+v", e)
	}
}

func TestATryLockKnowsWhenItHasLost(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(b *bench, n vote.Number)
		want WaitReason
	}{
		{"one voter says taken, two may still vote", func(b *bench, n vote.Number) {
			b.sends("v0", vote.Message{Kind: vote.KindHeld, Number: n, Token: 7})
		}, WaitNone},
		{"two say taken", func(b *bench, n vote.Number) {
			b.sends("v0", vote.Message{Kind: vote.KindHeld, Number: n, Token: 7})
			b.sends("v1", vote.Message{Kind: vote.KindHeld, Number: n, Token: 7})
		}, WaitHeld},
		{"one says taken, one can't be reached", func(b *bench, n vote.Number) {
			b.sends("v0", vote.Message{Kind: vote.KindHeld, Number: n, Token: 7})
			b.q.Unlink(b.now, b.place("v1"))
			b.q.DialFailed(b.now, "v1", "no route")
		}, WaitNone},
		{"two say taken, and one of them votes after all", func(b *bench, n vote.Number) {
			b.sends("v0", vote.Message{Kind: vote.KindHeld, Number: n, Token: 7})
			b.promise("v0", n, 1, 100)
			b.sends("v1", vote.Message{Kind: vote.KindHeld, Number: n, Token: 7})
		}, WaitNone},
		{"two say taken, by leases of which one must be over", func(b *bench, n vote.Number) {
			b.sends("v0", vote.Message{Kind: vote.KindHeld, Number: n, Token: 7})
			b.sends("v1", vote.Message{Kind: vote.KindHeld, Number: n, Token: 8})
		}, WaitNone},
		{"the one that was late has heard of the newer lease", func(b *bench, n vote.Number) {
			b.sends("v0", vote.Message{Kind: vote.KindHeld, Number: n, Token: 7})
			b.sends("v1", vote.Message{Kind: vote.KindHeld, Number: n, Token: 8})
			b.sends("v0", vote.Message{Kind: vote.KindHeld, Number: n, Token: 8})
		}, WaitHeld},
		{"two can't be reached", func(b *bench, n vote.Number) {
			for _, v := range []vote.NodeID{"v1", "v2"} {
				b.q.Unlink(b.now, b.place(v))
				b.q.DialFailed(b.now, v, "no route")
			}
		}, WaitNoQuorum},
		{"two are busy", func(b *bench, n vote.Number) {
			b.sends("v0", vote.Message{Kind: vote.KindBusy, Number: n})
			b.sends("v1", vote.Message{Kind: vote.KindBusy, Number: n})
		}, WaitBusy},
		{"two refuse", func(b *bench, n vote.Number) {
			b.sends("v0", vote.Message{Kind: vote.KindRefused, Reason: vote.ReasonNameTaken})
			b.sends("v1", vote.Message{Kind: vote.KindRefused, Reason: vote.ReasonNameTaken})
		}, WaitRefused},
		{"nobody says anything for a TTL", func(b *bench, n vote.Number) {
			for range 10 {
				b.pass(ttl / 10)
				for _, v := range b.names {
					b.ack(v, nil)
				}
			}
		}, WaitHeld},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 3)
			b.all()
			n := b.lock(true)
			c.do(b, n)
			got := WaitNone
			if e := b.last(EventFailed); e != nil {
				got = e.Wait.Reason
			}
			if got != c.want {
				t.Fatalf("failed for %d, want %d: %s", got, c.want, b.q.describeVoters())
			}
		})
	}
}

func TestStampsStayWithinSkewOfTheVotersClocks(t *testing.T) {
	for _, c := range []struct {
		name   string
		ours   vote.Micros
		theirs vote.Micros
		want   vote.Micros
	}{
		{"near", 5_000_000, 5_400_000, 5_000_000},
		{"an hour slow", 5_000_000, 3_605_000_000, 3_604_000_000},
		{"an hour fast", 3_605_000_000, 5_000_000, 6_000_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 3)
			b.now.Wall = c.theirs
			for _, v := range b.names {
				b.q.Link(vote.Now{Fast: b.now.Fast, Slow: b.now.Slow, Wall: c.ours}, b.place(v), vote.SessionID{Node: v, Incarnation: 5})
				b.drain()
				m := vote.Message{Kind: vote.KindAnswer, Stream: 1, End: true, Sent: b.q.peerOf(v).syncSent, Incarnation: 5, Generation: 1, Wall: c.theirs}
				b.q.Deliver(vote.Now{Fast: b.now.Fast, Slow: b.now.Slow, Wall: c.ours}, b.place(v), vote.SessionID{Node: v, Incarnation: 5}, &m)
			}
			b.now.Wall = c.ours
			b.sentTo("v0")
			b.lock(false)
			if got := b.outbox["v0"][0].Time; got != c.want {
				t.Fatalf("stamped %d, want %d", got, c.want)
			}
		})
	}
}

func TestElectorate(t *testing.T) {
	for _, c := range []struct{ n, majority int }{{1, 1}, {2, 2}, {3, 2}, {4, 3}, {5, 3}, {7, 4}, {63, 32}} {
		var names []vote.NodeID
		for i := range c.n {
			names = append(names, vote.NodeID(fmt.Sprintf("n%02d", i)))
		}
		fixed, err := Fixed(names)
		e := NewElectorate(&fixed, fixed.Voters)
		if err != nil || e.Majority() != c.majority || !e.Decides(e.All()) || e.All().Len() != c.n {
			t.Errorf("%d voters: %+v, %v", c.n, e, err)
		}
	}
	for _, bad := range [][]vote.NodeID{nil, {"a", "a"}, make([]vote.NodeID, 64)} {
		if _, err := Fixed(bad); err == nil {
			t.Errorf("%d voters %q are accepted", len(bad), bad)
		}
	}
	fixed, _ := Fixed([]vote.NodeID{"a", "b", "c", "d", "e"})
	e := NewElectorate(&fixed, fixed.Voters)
	covers := []vote.Instant{50, 10, 40, 20, 30}
	at := func(i int) vote.Instant { return covers[i] }
	if got := e.Until(e.All(), at); got != 30 {
		t.Errorf("a majority of five is covered until %d, want the third largest, 30", got)
	}
	if got := e.Until(e.All().Without(0), at); got != 20 {
		t.Errorf("without the first: %d, want 20", got)
	}
	if got := e.Until(Set(0).With(0).With(1), at); got != 0 {
		t.Errorf("two of five: %d, want never", got)
	}
}
