package quorum

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// inPieces returns a bench with a requester that lists, or takes in, a single request in each Tick.
func inPieces(t *testing.T) *bench {
	b := newBench(t, 3)
	b.q.perTick = 1
	b.all()
	return b
}

// hold has the requester hold keys with the votes of all voters; the number of a request is the
// serial of its votes.
func (b *bench) hold(keys ...vote.Key) (all []vote.Number) {
	for _, k := range keys {
		n, err := b.q.Lock(b.now, Exclusive(k, false))
		if err != nil {
			b.t.Fatal(err)
		}
		b.pass(0)
		for _, v := range b.names {
			b.promise(v, n, vote.Serial(n), vote.Token(1000*n))
		}
		b.granted(n, true)
		all = append(all, n)
	}
	b.pass(50 * time.Millisecond) // the deferred requests are sent
	for _, n := range all {
		b.promise("v2", n, vote.Serial(n), vote.Token(1000*n))
	}
	for _, v := range b.names {
		b.sentTo(v)
	}
	return all
}

// voted is an entry of an answer: a vote under the token of the lease.
func voted(n vote.Number, s vote.Serial) vote.Entry {
	return vote.Entry{Number: n, Serial: s, Token: vote.Token(1000 * n)}
}

// words returns the messages sent to a voter since the last call, with the numbers of the requests.
func (b *bench) words(v vote.NodeID) (all []string) {
	b.drain()
	for _, m := range b.outbox[v] {
		switch s := m.Kind.String(); {
		case m.Kind == vote.KindSync:
			for _, e := range m.Entries {
				s += fmt.Sprint(" ", e.Number)
				if e.Token != 0 {
					s += "!"
				}
			}
			if m.End {
				s += " end"
			}
			all = append(all, s)
		case m.Number != 0:
			all = append(all, fmt.Sprint(s, " ", m.Number))
		default:
			all = append(all, s)
		}
	}
	b.outbox[v] = nil
	return all
}

// ticks calls Tick until the requester has no more work, without a pause.
func (b *bench) ticks() (n int) {
	for ; b.q.Busy(); n++ {
		if b.q.Next() > b.now.Fast {
			b.t.Fatal("there is work, and no Tick is due")
		}
		b.pass(0)
	}
	return n
}

// A sync made in pieces lists each request once, as of a single moment; later messages follow
// behind the sync, in order.
func TestASyncInPiecesListsARequestBeforeItChanges(t *testing.T) {
	b := inPieces(t)
	held := b.hold("a", "b", "c", "d", "e", "f")
	b.q.Unlink(b.now, b.place("v0"))
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
	b.pass(0)
	b.pass(0) // two requests are listed
	b.q.Release(b.now, held[0])
	b.q.Release(b.now, held[4])
	b.q.Downgrade(b.now, held[3])
	// A request with a lock-delay is sent to all voters at once.
	spec := vote.Spec{Key: "late", Mode: vote.Exclusive, Delay: time.Millisecond}
	late, err := b.q.Lock(b.now, RequestOptions{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	b.promise("v1", late, vote.Serial(late), 9000)
	b.promise("v2", late, vote.Serial(late), 9000)
	b.granted(late, true)
	b.q.Release(b.now, late)
	if got := b.words("v0"); !slices.Equal(got, []string{"open"}) {
		t.Errorf("before the sync is complete, it says %q", got)
	}
	if got := b.ticks(); got < 4 {
		t.Errorf("the rest took %d ticks", got)
	}
	got := b.words("v0")
	want := []string{
		"sync 1! 2! 5! 4! 3! 6! end",
		"release 1", "release 5", "downgrade 4", "request 7", "confirm 7", "release 7",
	}
	if !slices.Equal(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
	// The voter's digest: the requests listed or sent, less the released requests, with the listed
	// votes.
	b.answer("v0", voted(2, 2), voted(5, 5), voted(3, 3))
	b.ticks()
	digest := vote.Digest{}
	for _, n := range []vote.Number{2, 3, 4, 6} {
		digest = digest.Plus(vote.DigestOfRequest(n))
	}
	digest = digest.Plus(vote.DigestOfVote(2)).Plus(vote.DigestOfVote(3))
	b.pass(ttl / 4)
	b.sends("v0", vote.Message{
		Kind: vote.KindAck, Sent: b.q.peerOf("v0").refreshed, Incarnation: 5, Generation: 1, Processed: 6,
		Count: digest.Count, Hash: digest.Hash, Wall: b.now.Wall,
	})
	if n := b.q.count.Mismatches; n != 0 {
		t.Errorf("the digest doesn't match")
	}
}

// A caller that comes to the front of a local queue while a sync is made is listed once.
func TestASyncInPiecesListsAFrontOnce(t *testing.T) {
	b := inPieces(t)
	held := b.hold("a", "b", "c")
	behind, err := b.q.Lock(b.now, Exclusive("c", false))
	if err != nil {
		t.Fatal(err)
	}
	b.q.requests[held[2]].contended = true // so the lease isn't handed off
	b.q.Unlink(b.now, b.place("v0"))
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
	b.pass(0)
	b.q.Release(b.now, held[2])
	b.ticks()
	got := b.words("v0")
	want := []string{"open", "sync 1! 3! 2! 4 end", "release 3"}
	if behind != 4 || !slices.Equal(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// While the answer about a new session is taken in, the voter extends no vote: neither a vote
// missing in the answer, nor a listed vote before the answer is in effect.
func TestAnAnswerInPiecesExtendsNothingBeforeItsEnd(t *testing.T) {
	b := inPieces(t)
	held := b.hold("a", "b", "c")
	until := func(i int) vote.Instant { return b.q.requests[held[i]].group.until }
	was := until(0)
	// v2 is gone, so v0 is needed. The session at v0 has ended and begun anew with a single vote.
	b.q.Unlink(b.now, b.place("v2"))
	b.q.Unlink(b.now, b.place("v0"))
	b.pass(ttl / 4)
	b.sentTo("v1")
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
	b.ticks()
	b.gen = 2
	b.answer("v0", vote.Entry{Number: held[1], Serial: 20, Token: 2000})
	for step := 0; ; step++ {
		b.ack("v1", func(m *vote.Message) { m.Generation = 1 })
		if b.q.Ready() != (step >= 3 && !b.q.Busy()) {
			t.Errorf("step %d: ready: %v", step, b.q.Ready())
		}
		if !b.q.Busy() {
			break
		}
		for i := range held {
			if got := until(i); got > was {
				t.Errorf("step %d: a lease without a new vote of v0 lasts longer, by %v", step, got.Sub(was))
			} else if got < was {
				t.Errorf("step %d: a lease lasts shorter, by %v", step, was.Sub(got))
			}
		}
		b.pass(0)
	}
	if got := until(1); got <= was {
		t.Errorf("the answer is in effect, and its vote doesn't count")
	}
	for _, i := range []int{0, 2} {
		if got := until(i); got != was {
			t.Errorf("a lease without a vote in the answer lasts longer, by %v", got.Sub(was))
		}
	}
	for _, n := range held {
		if !b.q.requests[n].contended {
			t.Errorf("request %d may be handed on, though another node may have had its key", n)
		}
	}
}

// A lease keeps its validity while the answer of a voter with a new session is taken in, if the
// answer lists the lease, whatever the other voters send meanwhile.
func TestALeaseKeepsItsValidityWhileAnAnswerIsTakenIn(t *testing.T) {
	b := inPieces(t)
	for i := range 3 {
		n, err := b.q.Lock(b.now, Exclusive(vote.Key(fmt.Sprint("k", i)), false))
		if err != nil {
			t.Fatal(err)
		}
		b.promise("v0", n, vote.Serial(n), 1000) // v2 gives no vote
		b.promise("v1", n, vote.Serial(n), 1000)
		b.granted(n, true)
	}
	was := b.q.requests[3].group.until
	b.q.Unlink(b.now, b.place("v0"))
	b.pass(ttl / 4)
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
	b.ticks()
	b.gen = 2
	b.answer("v0", vote.Entry{Number: 1, Serial: 10, Token: 1000}, vote.Entry{Number: 3, Serial: 30, Token: 1000})
	for b.q.Busy() {
		b.ack("v1", func(m *vote.Message) { m.Generation = 1 })
		for n, r := range b.q.requests {
			if r.state != stateWon {
				t.Fatalf("request %d isn't a lease any more", n)
			}
			if r.group.until != was {
				t.Fatalf("request %d is a lease until %v, and was one until %v", n, r.group.until, was)
			}
		}
		b.pass(0)
	}
	b.ack("v1", func(m *vote.Message) { m.Generation = 1 })
	if b.q.requests[3].group.until <= was || b.q.requests[2].group.until != was {
		t.Error("the answer extends nothing, or what it doesn't list")
	}
	if e := b.last(EventLost); e != nil {
		t.Errorf("%+v", e)
	}
}

// If a link breaks while an answer is taken in, nothing of the answer is in effect.
func TestAnAnswerInPiecesThatIsCutOffCoversNothing(t *testing.T) {
	b := inPieces(t)
	held := b.hold("a", "b", "c")
	p := b.q.peerOf("v0")
	b.q.Unlink(b.now, b.place("v0"))
	b.pass(ttl / 4)
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
	b.ticks()
	b.gen = 2
	b.answer("v0", voted(held[0], 10), voted(held[1], 20))
	b.pass(0)
	if v := &b.q.requests[held[0]].votes[p.place]; v.serial != 10 {
		t.Fatalf("the first vote isn't taken in: %+v", v)
	}
	b.q.Unlink(b.now, b.place("v0"))
	if p.gen == 2 || p.validity != (validity{}) || b.q.Busy() {
		t.Errorf("generation %d, cover %v, busy %v", p.gen, p.validity, b.q.Busy())
	}
	// The next answer still counts as the answer about a new session.
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
	b.ticks()
	b.answer("v0")
	b.ticks()
	for _, n := range held {
		r := b.q.requests[n]
		if r.votes[p.place].stands() || !r.contended {
			t.Errorf("request %d: %+v, contended %v", n, r.votes[p.place], r.contended)
		}
	}
}

// The messages behind a voter's answer wait, in order, until the answer is taken in.
func TestWhatComesBehindAnAnswerWaitsForItsEnd(t *testing.T) {
	b := inPieces(t)
	held := b.hold("a", "b", "c")
	p := b.q.peerOf("v0")
	b.q.Unlink(b.now, b.place("v0"))
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
	b.ticks()
	b.answer("v0", voted(held[0], 1), voted(held[1], 2))
	b.promise("v0", held[2], 30, 3000)
	b.sends("v0", vote.Message{Kind: vote.KindInquire, Number: held[2], Serial: 30})
	v := &b.q.requests[held[2]].votes[p.place]
	if p.received != 0 || v.serial == 30 {
		t.Fatalf("%d messages are taken in before the answer: %+v", p.received, v)
	}
	b.words("v0")
	b.ticks()
	if p.received != 2 || v.serial != 30 {
		t.Errorf("%d messages are taken in: %+v", p.received, v)
	}
	if got := b.words("v0"); !slices.Contains(got, fmt.Sprint("confirm ", held[2])) {
		t.Errorf("the inquiry is answered by %q", got)
	}
}

// A voter's silence counts only from the end of the sync on, and again from the end of the answer
// on.
func TestAVoterIsNotSilentWhileThisNodeWorks(t *testing.T) {
	b := inPieces(t)
	v0 := b.q.peerOf("v0")
	for i := range 8 { // the requests wait for as long as the test takes
		if _, err := b.q.Lock(b.now, Exclusive(vote.Key(fmt.Sprint("k", i)), false)); err != nil {
			t.Fatal(err)
		}
	}
	b.q.Unlink(b.now, b.place("v0"))
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
	if v0.syncBuilder == nil {
		t.Fatal("the sync is made at once")
	}
	for v0.syncBuilder != nil {
		b.pass(ttl / 4)
	}
	b.pass(ttl / 2)
	b.answer("v0", vote.Entry{Number: 1, Serial: 1, Token: 1000})
	if v0.answerReader == nil {
		t.Fatal("the answer is taken in at once")
	}
	for v0.answerReader != nil {
		b.pass(ttl / 4)
	}
	for _, s := range b.words("v0") {
		if s == "none" {
			t.Fatal("the connection is closed")
		}
	}
	if s := b.q.Voters(b.now)[0]; s.State != Reachable {
		t.Errorf("its answer is taken in, and it is %v", s)
	}
}

// If more requests wait than are evaluated at once, the end of a link still reaches each request.
func TestPendingRequestsAreReviewedInPieces(t *testing.T) {
	b := inPieces(t)
	var tries []vote.Number
	for i := range 5 {
		n, err := b.q.Lock(b.now, Exclusive(vote.Key(fmt.Sprint("k", i)), true))
		if err != nil {
			t.Fatal(err)
		}
		tries = append(tries, n)
	}
	b.drain()
	for _, v := range []vote.NodeID{"v0", "v1"} {
		b.q.Unlink(b.now, b.place(v))
		b.q.DialFailed(b.now, v, "gone")
	}
	if b.drain(); b.last(EventFailed) != nil {
		t.Error("a TryLock has failed at once")
	}
	b.ticks()
	failed := 0
	for _, e := range b.events {
		if e.Kind == EventFailed && slices.Contains(tries, e.Number) {
			failed++
		}
	}
	if failed != len(tries) {
		t.Errorf("%d of %d TryLocks have failed", failed, len(tries))
	}
}
