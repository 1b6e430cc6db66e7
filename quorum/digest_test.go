package quorum

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// trueAck acknowledges with the digest that a correct voter would have.
func (b *bench) trueAck(v vote.NodeID, l vote.Digest) {
	p := b.q.peerOf(v)
	b.sends(v, vote.Message{Kind: vote.KindAck, Sent: p.refreshed, Incarnation: 5, Generation: b.gen, Processed: p.sent, Pushed: p.received, Count: l.Count, Hash: l.Hash, Wall: b.now.Wall})
}

func TestAReleaseBetweenASyncAndItsAnswerKeepsTheDigest(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	for _, v := range b.names {
		b.promise(v, n, 1, 100)
	}
	b.granted(n, true)
	b.q.Unlink(b.now, b.place("v0"))
	// The sync lists n, and the release comes before the answer to the sync.
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
	b.q.Release(b.now, n)
	b.answer("v0", vote.Entry{Number: n, Serial: 1, Token: 100})
	b.pass(ttl / 5)
	b.trueAck("v0", vote.Digest{}) // the voter has processed the release, and keeps nothing
	if c := b.q.Counters().Mismatches; c != 0 {
		t.Fatalf("%d mismatches", c)
	}
}

func TestABusyThatCrossesAReleaseKeepsTheDigest(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.q.Release(b.now, n)
	b.sends("v0", vote.Message{Kind: vote.KindBusy, Number: n})
	b.sends("v0", vote.Message{Kind: vote.KindReleased, Number: n})
	b.pass(ttl / 5)
	b.trueAck("v0", vote.Digest{})
	if c := b.q.Counters().Mismatches; c != 0 {
		t.Fatalf("%d mismatches", c)
	}
}

func TestAWinBetweenASyncAndItsAnswerIsReported(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 1, 100)
	b.q.Unlink(b.now, b.place("v0"))
	b.sentTo("v0")
	b.gen++
	// The sync lists n as pending.
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
	b.gen--
	b.promise("v1", n, 1, 100)
	b.granted(n, true) // v0's old vote still counts
	b.promise("v2", n, 1, 100)
	b.gen++
	// v0 has made a new session: the vote is gone, and the request waits in v0's queue, not known
	// to have won.
	b.answer("v0")
	b.drain()
	ok := false
	for _, m := range b.outbox["v0"] {
		ok = ok || m.Kind == vote.KindConfirm && m.Won
	}
	if !ok {
		t.Fatal("v0 never learns that the request in its queue has won")
	}
}

func TestABusyVoterHasNothingToRelease(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.sends("v2", vote.Message{Kind: vote.KindBusy, Number: n})
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	b.granted(n, true)
	b.q.Unlink(b.now, b.place("v1"))
	b.q.Release(b.now, n)
	b.sends("v0", vote.Message{Kind: vote.KindReleased, Number: n})
	if b.last(EventReleased) == nil {
		t.Fatal("v0 has released, v2 never had it: a majority is free, yet Unlock hangs until the TTL and then fails")
	}
}
