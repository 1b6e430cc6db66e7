package quorum

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// ask requests a key with any options.
func (b *bench) ask(a RequestOptions) vote.Number {
	b.t.Helper()
	n, err := b.q.Lock(b.now, a)
	if err != nil {
		b.t.Fatal(err)
	}
	b.drain()
	return n
}

// short requests a key with a length of its own.
func (b *bench) short(length time.Duration, fixed bool) vote.Number {
	return b.ask(RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Length: length}, Fixed: fixed})
}

// extended has a voter confirm the extension of a vote, as of the instant sent.
func (b *bench) extended(v vote.NodeID, n vote.Number, s vote.Serial, sent vote.Instant) {
	b.sends(v, vote.Message{Kind: vote.KindExtended, Number: n, Serial: s, Sent: sent})
}

// The node's own voter answers at once. An extension for each of its answers, until another voter
// answers, would be a conversation without end.
func TestAVoteIsNotExtendedAgainForItsAnswer(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.short(100*time.Millisecond, false)
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	if got := b.sentTo("v0"); got != "request extend" {
		t.Fatalf("v0 was told %q", got)
	}
	b.extended("v0", n, 1, b.now.Fast)
	if got := b.sentTo("v0"); got != "" {
		t.Fatalf("v0 was told %q for its answer", got)
	}
	b.granted(n, false)
	b.pass(20 * time.Millisecond)
	if got := b.sentTo("v0"); got != "extend" {
		t.Fatalf("v0 was told %q when it was time", got)
	}
	b.extended("v1", n, 1, b.now.Fast)
	b.granted(n, true)
}

// settles has a voter acknowledge with its true digest, and demands no resync.
func (b *bench) settles(v vote.NodeID, keeps vote.Digest, processed uint64) {
	b.t.Helper()
	b.sentTo(v)
	mismatches := b.q.Counters().Mismatches
	b.ack(v, func(m *vote.Message) { m.Processed, m.Count, m.Hash = processed, keeps.Count, keeps.Hash })
	if b.q.Counters().Mismatches != mismatches {
		b.t.Fatalf("%s keeps %+v, and that isn't what was expected", v, keeps)
	}
}

// A vote that its voter has already ended can't be given back once more.
func TestTheLedgerWhenAVoteLapsesThatIsGivenBack(t *testing.T) {
	lapse := func(n vote.Number, s vote.Serial) vote.Message {
		return vote.Message{Kind: vote.KindLapsed, Number: n, Serial: s}
	}
	// Each case happens to v0's vote, serial 7, and returns the digest of both sides afterwards.
	// The voter has ended the vote before the requester's messages arrive.
	for name, do := range map[string]func(b *bench, n vote.Number) vote.Digest{
		"by itself": func(b *bench, n vote.Number) vote.Digest {
			b.sends("v0", lapse(n, 7))
			return vote.DigestOfRequest(n)
		},
		"yielded": func(b *bench, n vote.Number) vote.Digest {
			b.sends("v0", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 7})
			b.sends("v0", lapse(n, 7))
			return vote.DigestOfRequest(n)
		},
		"yielded, and promised anew": func(b *bench, n vote.Number) vote.Digest {
			b.sends("v0", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 7})
			b.sends("v0", lapse(n, 7))
			b.promise("v0", n, 8, 100)
			return vote.DigestOfRequest(n).Plus(vote.DigestOfVote(8))
		},
		"yielded and released": func(b *bench, n vote.Number) vote.Digest {
			b.sends("v0", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 7})
			b.q.Release(b.now, n)
			b.sends("v0", lapse(n, 7))
			return vote.Digest{}
		},
		"released": func(b *bench, n vote.Number) vote.Digest {
			b.q.Release(b.now, n)
			b.sends("v0", lapse(n, 7))
			return vote.Digest{}
		},
		"released, and promised anew meanwhile": func(b *bench, n vote.Number) vote.Digest {
			b.q.Release(b.now, n)
			b.sends("v0", lapse(n, 7))
			b.promise("v0", n, 8, 100)
			return vote.Digest{}
		},
		"released, promised anew meanwhile, and never extended": func(b *bench, n vote.Number) vote.Digest {
			b.sends("v0", lapse(n, 7))
			b.q.Release(b.now, n)
			b.promise("v0", n, 8, 100)
			b.sends("v0", lapse(n, 8))
			return vote.Digest{}
		},
		"released while it was listed": func(b *bench, n vote.Number) vote.Digest {
			b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
			b.q.Release(b.now, n)
			b.answer("v0", vote.Entry{Number: n, Serial: 7, Token: 100})
			b.sends("v0", lapse(n, 7))
			return vote.Digest{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 3)
			b.all()
			n := b.short(100*time.Millisecond, false)
			b.promise("v0", n, 7, 100)
			keeps := do(b, n)
			b.settles("v0", keeps, b.q.peerOf("v0").sent)
		})
	}
}

// A voter gives a pending request whose vote has lapsed no other vote before a refresh: the session
// is refreshed soon.
func TestALapseOfAPendingRequestHasTheSessionRefreshed(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.short(100*time.Millisecond, false)
	b.promise("v0", n, 7, 100)
	p := b.q.peerOf("v0")
	was := p.refreshAt
	b.sends("v0", vote.Message{Kind: vote.KindLapsed, Number: n, Serial: 7})
	if soon := p.refreshed.Add(yieldEvery); p.refreshAt != soon || was <= soon {
		t.Errorf("the next refresh is due at %v, and was at %v", p.refreshAt, was)
	}
}

func TestALeaseOfItsOwnLengthRestsOnItsVotes(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		b := newBench(t, 3)
		b.all()
		n := b.short(500*time.Millisecond, fixed)
		b.q.ackSchedule.at = vote.Never // or else the voters were asked for acknowledgements
		start := b.now.Fast
		b.promise("v0", n, 1, 100)
		b.promise("v1", n, 1, 100)
		b.extended("v0", n, 1, start)
		b.granted(n, false)
		b.pass(50 * time.Millisecond)
		b.extended("v1", n, 1, start)
		b.granted(n, true)
		want := start.Add(vote.Validity(500 * time.Millisecond)).Add(-vote.Margin(500 * time.Millisecond))
		if e := b.last(EventValidity); e.Until != want {
			t.Fatalf("until %d, want %d", e.Until, want)
		}
		b.sentTo("v0")
		b.promise("v2", n, 1, 100) // this vote arrives after the win
		if got := b.sentTo("v2"); got != "request confirm extend" {
			t.Fatalf("fixed %v: v2 was told %q", fixed, got)
		}
		b.pass(50 * time.Millisecond)
		if got := b.sentTo("v0"); (got == "extend") != !fixed {
			t.Fatalf("fixed %v: v0 was told %q", fixed, got)
		}
		if !fixed {
			b.extended("v0", n, 1, b.now.Fast)
			b.extended("v2", n, 1, b.now.Fast)
			want = want.Add(100 * time.Millisecond)
			if e := b.last(EventValidity); e.Until != want {
				t.Fatalf("until %d, want %d", e.Until, want)
			}
		}
		// Refreshes of the sessions extend no such lease.
		for b.now.Fast < want-1 {
			b.pass(min(want.Sub(b.now.Fast)-1, ttl/5))
			for _, v := range b.names {
				b.ack(v, nil)
			}
		}
		if e := b.last(EventLost); e != nil {
			t.Fatalf("fixed %v: lost too early", fixed)
		}
		b.pass(1)
		if e := b.last(EventLost); e == nil || e.Number != n {
			t.Fatalf("fixed %v: it goes on", fixed)
		}
		var lost bool
		b.drain()
		for _, m := range b.outbox["v0"] {
			lost = lost || m.Kind == vote.KindRelease && m.Lost
		}
		if !lost {
			t.Fatalf("fixed %v: v0 wasn't told that it is over", fixed)
		}
	}
}

func TestWhatCoversAVoteOutlivesItsConnection(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.short(2*time.Second, false)
	start := b.now.Fast
	for _, v := range []vote.NodeID{"v0", "v1"} {
		b.promise(v, n, 1, 100)
		b.extended(v, n, 1, start)
	}
	b.granted(n, true)
	until := b.last(EventValidity).Until
	b.gen++ // the session has ended, and the vote stands
	b.link("v0", vote.Entry{Number: n, Serial: 1, Token: 100})
	if e := b.last(EventValidity); e.Until != until {
		t.Fatalf("until %d, before %d", e.Until, until)
	}
	b.sentTo("v0")
	b.pass(400 * time.Millisecond)
	if got := b.sentTo("v0"); got != "refresh extend" {
		t.Fatalf("v0 was told %q", got)
	}
	// The voter has lost the vote, but the validity gained by the vote stands.
	b.link("v0")
	if e := b.last(EventLost); e != nil {
		t.Fatal("lost at once")
	}
	b.pass(until.Sub(b.now.Fast))
	if e := b.last(EventLost); e == nil {
		t.Fatal("it goes on without a majority")
	}
}

// A voter that has ended a vote votes for the same request again only if the owner confirms the
// lease.
func TestALeaseThatGoesOnAsksForALapsedVoteAgain(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.short(500*time.Millisecond, false)
	for _, v := range b.names {
		b.promise(v, n, 1, 100)
		b.extended(v, n, 1, b.now.Fast)
	}
	b.granted(n, true)
	b.sentTo("v0")
	b.sends("v0", vote.Message{Kind: vote.KindLapsed, Number: n, Serial: 1})
	if got := b.sentTo("v0"); got != "confirm" {
		t.Fatalf("v0 was told %q", got)
	}
	if e := b.last(EventLost); e != nil {
		t.Fatal("two others stand behind it")
	}
	b.promise("v0", n, 2, 100)
	if got := b.sentTo("v0"); got != "extend" {
		t.Fatalf("v0 was told %q", got)
	}
}

// A lease without renewal has its whole length from the grant on, however long the request waited
// for the last vote.
func TestALeaseThatIsNotRenewedHasItsWholeLength(t *testing.T) {
	const length = 10 * time.Second
	b := newBench(t, 3)
	b.all()
	n := b.short(length, true)
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	b.extended("v0", n, 1, b.now.Fast)
	b.sends("v1", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 1})
	for range 9 { // short of the next extension
		b.pass(ttl / 5)
		b.ack("v0", nil)
		b.ack("v1", nil)
	}
	b.promise("v1", n, 2, 100)
	b.sentTo("v0")
	b.granted(n, false)
	b.extended("v1", n, 2, b.now.Fast)
	b.granted(n, true)
	if got := b.sentTo("v0"); got != "extend confirm" {
		t.Fatalf("v0, which voted long ago, was told %q", got)
	}
	b.extended("v0", n, 1, b.now.Fast)
	if left := b.last(EventValidity).Until.Sub(b.now.Fast); left < length*95/100 || left > length {
		t.Errorf("it lasts for %v", left)
	}
	b.pass(ttl / 5)
	if got := b.sentTo("v0"); got != "refresh" {
		t.Errorf("v0 was told %q when the lease isn't to be extended any more", got)
	}
}

// Votes extended under the previous version are extended again as soon as their voters have applied
// the newest version; the next regular extension may be far away.
func TestARequestWithALengthDoesNotWaitForTheNextExtensionWhenTheElectorateChanges(t *testing.T) {
	for _, late := range []bool{false, true} {
		f := follow(t, "1: a b c")
		n, err := f.q.Lock(f.now, RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Length: 100 * ttl}})
		if err != nil {
			t.Fatal(err)
		}
		f.promise(n, "a b")
		f.sends("a", vote.Message{Kind: vote.KindExtended, Number: n, Serial: 1, Sent: f.now.Fast})
		f.sends("b", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 2})
		// The validity of a's vote under the previous version may be too short by now, or over.
		for range 2 * vote.RefreshesPerTTL {
			f.pass(ttl / vote.RefreshesPerTTL)
			f.ack("a b c")
		}
		f.reconfigureTo("2: a b c d e (a b c)")
		f.reconfigureTo("3: a b c d e")
		f.link("d e")
		if late {
			f.goes["a"] = 2
		}
		f.pass(ttl / vote.RefreshesPerTTL)
		f.ack("a b c d e")
		f.sentTo("a")
		f.promise(n, "d e")
		for i, v := range []string{"d", "e"} {
			f.sends(v, vote.Message{Kind: vote.KindExtended, Number: n, Serial: vote.Serial(3 + i), Sent: f.now.Fast})
		}
		f.want(n, EventNone)
		if late {
			if got := f.sentTo("a"); got != "" {
				t.Fatalf("a, which applies the one before, is told %q", got)
			}
			f.goes["a"] = 0
			f.pass(ttl / vote.RefreshesPerTTL)
			f.sentTo("a")
			f.ack("a")
		}
		if got := f.sentTo("a"); got != "extend" {
			t.Fatalf("late %v: a is told %q", late, got)
		}
		f.sends("a", vote.Message{Kind: vote.KindExtended, Number: n, Serial: 1, Sent: f.now.Fast})
		f.want(n, EventGranted)
	}
}

// A lease that rests on its node's session is extended without a vote. The voters receive the new
// end of the lease, to show the end to other nodes.
func TestVotersHearOfTheNewEndOfALease(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.ask(RequestOptions{Spec: vote.Spec{Key: "k", EndsAfter: 2 * time.Second}})
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	b.granted(n, true)
	b.sentTo("v0")
	b.pass(time.Millisecond)
	b.outbox["v0"] = nil
	if held, confirmed := b.q.Extend(b.now, n, 3*time.Second, 3*time.Second); !held || confirmed != 0 {
		t.Fatalf("held: %t, to be confirmed until %d", held, confirmed)
	}
	b.drain()
	m := b.outbox["v0"]
	if len(m) != 1 || m[0].Kind != vote.KindExtend || m[0].Sent != b.now.Fast || m[0].TTL != 3*time.Second || m[0].Serial != 0 {
		t.Errorf("v0 was told %+v", m)
	}
}

// Of two calls of Extend, the second after the voters have lowered the maximum TTL, both are
// confirmed: by an event that covers the later of the two instants.
func TestExtensionsAreConfirmedThoughTheMaximumTTLIsLowered(t *testing.T) {
	f := tuned(t, 4*ttl)
	n, err := f.q.Lock(f.now, RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Length: 4 * ttl, EndsAfter: 4 * ttl}, Fixed: true})
	if err != nil {
		t.Fatal(err)
	}
	extended := func() {
		for _, v := range strings.Fields("a b c") {
			f.sends(v, vote.Message{Kind: vote.KindExtended, Number: n, Serial: f.q.requests[n].votes[f.peer(v).place].serial, Sent: f.now.Fast})
		}
	}
	f.promise(n, "a b c")
	extended()
	f.want(n, EventGranted)
	f.pass(ttl / 10)
	_, first := f.q.Extend(f.now, n, 4*ttl, 4*ttl) // its confirmation is on the way
	f.reconfigure(decided("8: a b c", ttl, 0))
	f.q.forgetBefore()
	f.pass(time.Millisecond)
	if _, second := f.q.Extend(f.now, n, ttl, ttl); second < first {
		t.Errorf("the second call is confirmed at %d, before the first at %d", second, first)
	}
	for range 60 {
		extended()
		if e := f.last(EventExtended); e != nil {
			if e.Until < first {
				t.Errorf("confirmed until %d, want %d", e.Until, first)
			}
			return
		}
		f.pass(ttl / 10)
		f.ack("a b c")
	}
	t.Error("neither call is confirmed")
}
