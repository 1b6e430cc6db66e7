package quorum

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// ask asks for a key in any way.
func (b *bench) ask(a Ask) vote.Number {
	b.t.Helper()
	n, err := b.q.Lock(b.now, a)
	if err != nil {
		b.t.Fatal(err)
	}
	b.drain()
	return n
}

// short asks for a key with a length of its own.
func (b *bench) short(length time.Duration, fixed bool) vote.Number {
	return b.ask(Ask{Wish: vote.Wish{Key: "k", Mode: vote.Exclusive, Length: length}, Fixed: fixed})
}

// extended has a voter say that it has extended a vote, as of when it was asked last.
func (b *bench) extended(v vote.NodeID, n vote.Number, s vote.Serial, sent vote.Instant) {
	b.say(v, vote.Message{Kind: vote.KindExtended, Number: n, Serial: s, Sent: sent})
}

// The node's own voter answers at once. Asking it again at each of its answers, as long as another's hasn't come, was a
// conversation that never ended.
func TestAVoteIsNotExtendedAgainForItsAnswer(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.short(100*time.Millisecond, false)
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	if got := b.told("v0"); got != "request extend" {
		t.Fatalf("v0 was told %q", got)
	}
	b.extended("v0", n, 1, b.now.Fast)
	if got := b.told("v0"); got != "" {
		t.Fatalf("v0 was told %q for its answer", got)
	}
	b.granted(n, false)
	b.pass(20 * time.Millisecond)
	if got := b.told("v0"); got != "extend" {
		t.Fatalf("v0 was told %q when it was time", got)
	}
	b.extended("v1", n, 1, b.now.Fast)
	b.granted(n, true)
}

// settles has a voter acknowledge with the ledger that it has in truth, and asks for no new statement.
func (b *bench) settles(v vote.NodeID, keeps vote.Ledger, processed uint64) {
	b.t.Helper()
	b.told(v)
	mismatches := b.q.Counters().Mismatches
	b.ack(v, func(m *vote.Message) { m.Processed, m.Count, m.Hash = processed, keeps.Count, keeps.Hash })
	if b.q.Counters().Mismatches != mismatches {
		b.t.Fatalf("%s keeps %+v, and that isn't what was expected", v, keeps)
	}
}

// A vote that its voter has ended already can't be given back once more.
func TestTheLedgerWhenAVoteLapsesThatIsGivenBack(t *testing.T) {
	lapse := func(n vote.Number, s vote.Serial) vote.Message {
		return vote.Message{Kind: vote.KindLapsed, Number: n, Serial: s}
	}
	// Each is done to v0's vote, serial 7; both sides then keep what is returned. The voter has ended the vote before it hears of it.
	for name, do := range map[string]func(b *bench, n vote.Number) vote.Ledger{
		"by itself": func(b *bench, n vote.Number) vote.Ledger {
			b.say("v0", lapse(n, 7))
			return vote.OfRequest(n)
		},
		"yielded": func(b *bench, n vote.Number) vote.Ledger {
			b.say("v0", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 7})
			b.say("v0", lapse(n, 7))
			return vote.OfRequest(n)
		},
		"yielded, and promised anew": func(b *bench, n vote.Number) vote.Ledger {
			b.say("v0", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 7})
			b.say("v0", lapse(n, 7))
			b.promise("v0", n, 8, 100)
			return vote.OfRequest(n).Plus(vote.OfVote(8))
		},
		"yielded and released": func(b *bench, n vote.Number) vote.Ledger {
			b.say("v0", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 7})
			b.q.Release(b.now, n)
			b.say("v0", lapse(n, 7))
			return vote.Ledger{}
		},
		"released": func(b *bench, n vote.Number) vote.Ledger {
			b.q.Release(b.now, n)
			b.say("v0", lapse(n, 7))
			return vote.Ledger{}
		},
		"released, and promised anew meanwhile": func(b *bench, n vote.Number) vote.Ledger {
			b.q.Release(b.now, n)
			b.say("v0", lapse(n, 7))
			b.promise("v0", n, 8, 100)
			return vote.Ledger{}
		},
		"released while it was listed": func(b *bench, n vote.Number) vote.Ledger {
			b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Life: 5})
			b.q.Release(b.now, n)
			b.answer("v0", vote.Entry{Number: n, Serial: 7, Token: 100})
			b.say("v0", lapse(n, 7))
			return vote.Ledger{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 3)
			b.all()
			n := b.short(100*time.Millisecond, false)
			b.promise("v0", n, 7, 100)
			keeps := do(b, n)
			b.settles("v0", keeps, b.q.peerOf("v0").said)
		})
	}
}
