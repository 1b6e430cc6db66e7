package quorum

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The votes of a lease with a length of its own are extended now and then, not at every tick.
func TestALengthIsExtendedOnceInAWhile(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	w := Exclusive("k", false)
	w.Length = ttl
	n, err := b.q.Lock(b.now, w)
	if err != nil {
		t.Fatal(err)
	}
	b.drain()
	for _, v := range b.names {
		b.promise(v, n, 1, 100)
	}
	b.sentTo("v0")
	extends := 0
	for range 100 {
		b.pass(ttl / 100)
		for _, v := range b.names {
			b.sends(v, vote.Message{
				Kind: vote.KindAck, Sent: b.now.Fast, Incarnation: 5, Generation: b.gen, Wall: b.now.Wall,
			})
		}
		extends += strings.Count(b.sentTo("v0"), "extend")
	}
	if extends < 2 || extends > 20 {
		t.Errorf("in the time of one length the voter was told %d times to extend its vote", extends)
	}
}

// No extension is sent to a voter without a vote for the lease.
func TestOnlyVotesThatStandAreExtended(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.short(ttl/2, false)
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	b.extended("v0", n, 1, b.now.Fast)
	b.extended("v1", n, 1, b.now.Fast)
	b.granted(n, true)
	b.sentTo("v2")
	for range 5 {
		b.pass(ttl / 10)
		for _, v := range b.names {
			b.ack(v, nil)
		}
	}
	if got := b.sentTo("v0"); !strings.Contains(got, "extend") {
		t.Fatalf("v0 has voted, and was told %q", got)
	}
	if got := b.sentTo("v2"); strings.Contains(got, "extend") {
		t.Errorf("v2 hasn't voted, and was told %q", got)
	}
}
