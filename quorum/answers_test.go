package quorum

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// refreshesOf counts the refreshes sent to a voter since the last call.
func (b *bench) refreshesOf(v vote.NodeID) (n int) {
	b.drain()
	for _, m := range b.outbox[v] {
		if m.Kind == vote.KindRefresh {
			n++
		}
	}
	b.outbox[v] = nil
	return n
}

// acks has voters acknowledge the newest refresh and all messages sent to the voters.
func (b *bench) acks(voters ...vote.NodeID) {
	for _, v := range voters {
		b.ack(v, func(*vote.Message) {})
	}
}

// While a request waits, the voters are asked once whether the request has been processed. Their
// answers decide the reason given to the caller: the key is held once a majority has processed the
// request and a voter of the majority has voted for another request.
func TestARequestIsHeldOnlyOnEvidence(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	b.pass(ackEvery) // since the last refresh
	// A shared request is sent to all voters at once.
	n := b.ask(RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Shared}})
	reason := func(want WaitReason, when string) Wait {
		t.Helper()
		w := b.q.PendingReason(b.now, n)
		if w.Reason != want {
			t.Errorf("%s: %+v", when, w)
		}
		return w
	}
	reason(WaitNoQuorum, "at once")
	for _, v := range b.names {
		b.refreshesOf(v)
	}
	b.pass(ackDelayLeast - 1)
	if n := b.refreshesOf("v0"); n != 0 {
		t.Errorf("%d refreshes too early", n)
	}
	b.pass(1)
	for _, v := range b.names {
		if n := b.refreshesOf(v); n != 1 {
			t.Errorf("%s was refreshed %d times", v, n)
		}
	}
	b.ack("v0", func(m *vote.Message) { // the refresh has overtaken the request
		said := b.q.peerOf("v0").digest.sent
		l := vote.Digest{Count: m.Count, Hash: m.Hash}.Minus(said[len(said)-1].delta)
		m.Processed, m.Count, m.Hash = m.Processed-1, l.Count, l.Hash
	})
	if b.q.hasProcessed(b.q.peerOf("v0"), b.q.requests[n]) {
		t.Error("v0 hasn't processed the request, and is taken to have")
	}
	b.acks("v0")
	w := reason(WaitNoQuorum, "one of three has processed it")
	if w.Text != "3 of 3 voters count; v1, v2 haven't answered this request for 50ms" {
		t.Error(w.Text)
	}
	b.promise("v1", n, 1, 100)
	reason(WaitHeld, "one of a majority has another's vote")
	b.promise("v0", n, 1, 100)
	b.promise("v2", n, 1, 100)

	b.pass(ackEvery)
	if n := b.refreshesOf("v0"); n != 0 {
		t.Errorf("nothing waits, and v0 was refreshed %d times", n)
	}
}

// With callers arriving all the time, each voter is asked at most once per ackEvery, or sooner if
// callers have little time.
func TestVotersAreAskedNoMoreThanSoOften(t *testing.T) {
	count := func(patience time.Duration) int {
		b := newBench(t, 3)
		b.all()
		b.refreshesOf("v0")
		sum := 0
		for range 200 {
			b.ask(RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Shared}, Patience: patience})
			b.pass(time.Millisecond)
			sum += b.refreshesOf("v0")
		}
		return sum
	}
	if n := count(0); n < 3 || n > 5 { // including the regular refresh
		t.Errorf("%d refreshes in 200 ms", n)
	}
	if n := count(time.Hour); n < 3 || n > 5 {
		t.Errorf("%d refreshes in 200 ms for callers with much time", n)
	}
	if n := count(4 * time.Millisecond); n < 40 || n > 101 {
		t.Errorf("%d refreshes in 200 ms for callers with little time", n)
	}
}

// A locally queued request waits for the same reason as the front of the local queue.
func TestQueuedRequestsAreNotifiedOfTheFirst(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	b.pass(ackEvery)
	first, second := b.lock(false), b.lock(false)
	if w := b.q.PendingReason(b.now, second); w.Reason != WaitNoQuorum {
		t.Errorf("%+v", w)
	}
	for range 2 { // the deferred request to the third voter is sent in between
		b.pass(ackDelayLeast)
		b.acks("v0", "v1") // a majority has processed the front of the queue, and voted for another
	}
	for _, n := range []vote.Number{first, second} {
		if w := b.q.PendingReason(b.now, n); w.Reason != WaitHeld {
			t.Errorf("request %d: %+v", n, w)
		}
	}
	b.promise("v0", first, 1, 100)
	b.promise("v1", first, 1, 100)
	b.granted(first, true)
	if w := b.q.PendingReason(b.now, second); w.Reason != WaitHeld {
		t.Errorf("%+v", w)
	}
}

// A voter that leaves a refresh unanswered is silent well before half the TTL, and isn't counted on
// until its next answer.
func TestASilentVoterIsntCountedOn(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	states := func() (s []State) {
		for _, v := range b.q.Voters(b.now) {
			s = append(s, v.State)
		}
		return s
	}
	limit := silentAfter(ttl)
	if limit <= ttl/vote.RefreshesPerTTL || limit >= ttl/2 {
		t.Fatalf("silent after %v of %v", limit, ttl)
	}
	for at := time.Duration(0); at < limit; at += ttl / 10 {
		b.pass(ttl / 10)
		b.acks("v0")
	}
	if !b.q.Ready() || states()[1] != Reachable {
		t.Errorf("after %v: %v", limit, states())
	}
	b.pass(1)
	if b.q.Ready() {
		t.Error("it is ready with one of three")
	}
	if s := states(); s[0] != Reachable || s[1] != Silent || s[2] != Silent {
		t.Errorf("%v", s)
	}
	b.acks("v1")
	if s := states(); !b.q.Ready() || s[1] != Reachable {
		t.Errorf("%v", s)
	}
}

// A caller with little patience is served in time even if more voters are asked meanwhile: the time
// of the question to the voters depends on the caller, not on the newest message.
func TestACallerInAHurryIsServedThoughMoreVotersAreAskedMeanwhile(t *testing.T) {
	const patience = 40 * time.Millisecond
	b := as(t, "v0", 3)
	if _, err := b.q.Lock(b.now, RequestOptions{Spec: vote.Spec{Key: "k"}, Patience: patience}); err != nil {
		t.Fatal(err)
	}
	b.pass(minHedgeDelay)
	if got := b.sentTo("v2"); got != "request" {
		t.Fatalf("v2 was told %q", got)
	}
	b.refreshesOf("v1")
	b.pass(patience/4 - minHedgeDelay)
	b.pass(0)
	if n := b.refreshesOf("v1"); n != 1 {
		t.Errorf("v1 is asked %d times in a quarter of the caller's patience", n)
	}
}
