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
