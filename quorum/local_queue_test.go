package quorum

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// wonAtOnce returns a bench with a request that has won by the votes of two of three voters, and
// with callers locally queued behind. These callers came before the request was sent to the voters,
// when all were queued behind another request.
func wonAtOnce(t *testing.T, waiters int) (b *bench, first vote.Number, waits []vote.Number) {
	b = newBench(t, 3)
	b.all()
	zeroth := b.lock(false)
	first = b.lock(false)
	for range waiters {
		waits = append(waits, b.lock(false))
	}
	b.q.Release(b.now, zeroth)
	b.drain()
	b.promise("v0", first, 1, 100)
	b.promise("v1", first, 1, 100)
	b.granted(first, true)
	for _, v := range b.names {
		b.outbox[v] = nil
	}
	return b, first, waits
}

func TestALeaseIsNotPassedOnToOneThatAskedLater(t *testing.T) {
	b, holder, _ := wonAtOnce(t, 0)
	later := b.lock(false)
	b.q.Release(b.now, holder)
	b.granted(later, false)
	b.only("v0", "request release")

	b, holder, _ = wonAtOnce(t, 0)
	later = b.lock(false)
	// The answers to the refreshes sent now show that the lease stands after the other caller
	// asked.
	b.pass(ttl / 5)
	b.pass(time.Millisecond)
	for _, v := range b.names {
		l := vote.Digest{}.Plus(vote.DigestOfRequest(holder))
		if v != "v2" {
			l = l.Plus(vote.DigestOfVote(1))
		}
		b.trueAck(v, l)
	}
	b.sentTo("v0")
	b.q.Release(b.now, holder)
	b.granted(later, true)
	b.only("v0", "")
}

// Voters that have created a session anew show that this node was silent for too long, even if no
// clock of the node shows so. Another node may have had the key meanwhile, with larger tokens.
func TestALeaseIsNotPassedOnOnceSessionsHaveBegunAnew(t *testing.T) {
	b, holder, _ := wonAtOnce(t, 0)
	later := b.lock(false)
	b.gen++
	for _, v := range b.names {
		b.q.Unlink(b.now, b.place(v))
		if v == "v2" {
			b.link(v)
		} else {
			b.link(v, vote.Entry{Number: holder, Serial: 9, Token: 100})
		}
	}
	b.pass(ttl / 5)
	b.pass(time.Millisecond)
	for _, v := range b.names {
		b.ack(v, nil)
	}
	b.sentTo("v0")
	b.q.Release(b.now, holder)
	b.granted(later, false)
	b.only("v0", "request release")
}

func (b *bench) silent() {
	b.t.Helper()
	for _, v := range b.names {
		if got := b.sentTo(v); got != "" {
			b.t.Fatalf("%s was told %q", v, got)
		}
	}
}

func TestALeaseIsPassedOnWithoutAWordAsOftenAsThereAreTokens(t *testing.T) {
	b, holder, waits := wonAtOnce(t, vote.BlockSize+1)
	b.silent() // the voters don't know the local queue
	token := vote.Token(100).First()
	for i, n := range waits[:vote.BlockSize-1] {
		b.granted(n, false)
		b.q.Release(b.now, holder)
		b.granted(n, true)
		b.silent()
		e := b.last(EventGranted)
		if e.Token != token+vote.Token(i)+1 || e.Group == 0 {
			t.Fatalf("the lease that was passed on %d times: %+v", i+1, e)
		}
		if r := b.last(EventReleased); r.Number != holder || r.Wait.Reason != WaitNone {
			t.Fatalf("released: %+v", r)
		}
		holder = n
	}
	if b.last(EventGranted).Token != 100 {
		t.Fatal("not all tokens of the run were used")
	}
	next := waits[vote.BlockSize-1]
	b.q.Release(b.now, holder)
	b.granted(next, false)
	// In this order the request is queued before the key becomes free.
	if got := b.sentTo("v0"); got != "request release" {
		t.Fatalf("v0 was told %q", got)
	}
	b.promise("v0", next, 2, 100+vote.BlockSize)
	b.promise("v1", next, 2, 100+vote.BlockSize)
	b.granted(next, true)
	if e := b.last(EventGranted); e.Token != 101 {
		t.Fatalf("token %d after 100", e.Token)
	}
}

func TestNoHandOffWhileAnotherNodeWaits(t *testing.T) {
	b, holder, waits := wonAtOnce(t, 2)
	b.sends("v1", vote.Message{Kind: vote.KindContended, Number: holder, Who: "other"})
	b.pass(10 * time.Millisecond)
	b.q.Release(b.now, holder)
	b.drain()
	b.granted(waits[0], false)
	for _, m := range b.outbox["v0"] {
		if r := b.q.requests[waits[0]]; m.Kind == vote.KindRequest && (m.Number != waits[0] || m.Time != r.time || r.time >= b.now.Wall) {
			t.Fatalf("the next in line asks with the time at which it asks, not with that at which it came: %+v", m)
		}
	}
	if got := b.sentTo("v0"); got != "request release" {
		t.Fatalf("v0 was told %q", got)
	}
}

func TestALeaseThatWasPassedOnIsItsNewHoldersInEveryWord(t *testing.T) {
	b, first, waits := wonAtOnce(t, 1)
	second := waits[0]
	b.q.Release(b.now, first)
	b.granted(second, true)
	b.q.Release(b.now, first) // the first caller has no lease any more
	if b.last(EventReleased).Number != first || b.q.Alias(second) != first {
		t.Fatalf("alias %d", b.q.Alias(second))
	}
	b.sends("v0", vote.Message{Kind: vote.KindContended, Number: first, Who: "x", Text: "why", Revoke: true})
	if e := b.last(EventContended); e.Number != second {
		t.Fatalf("%+v", e)
	}
	if b.q.SetValue(b.now, second, []byte("v")) == 0 || b.q.SetValue(b.now, first, []byte("v")) != 0 {
		t.Fatal("the value goes to whoever had it before")
	}
	b.pass(2 * ttl)
	if e := b.last(EventLost); e == nil || e.Number != second {
		t.Fatalf("lost: %+v", e)
	}
	b.pass(2 * ttl)
	if b.q.Open() != 0 || len(b.q.aliases) != 0 || len(b.q.queues) != 0 {
		t.Fatalf("left behind: %d requests, %d aliases, %d local queues", b.q.Open(), len(b.q.aliases), len(b.q.queues))
	}
}

func TestAQueuedCallerTakesThePlaceOfOneThatGaveUp(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	first, second, third := b.lock(false), b.lock(false), b.lock(false)
	if got := b.sentTo("v0"); got != "request" {
		t.Fatalf("v0 was told %q", got)
	}
	b.q.Release(b.now, second)
	if e := b.last(EventReleased); e == nil || e.Number != second {
		t.Fatal("one that nobody was told of isn't gone at once")
	}
	b.only("v0", "")
	b.q.Release(b.now, first)
	if got := b.sentTo("v0"); got != "request release" {
		t.Fatalf("v0 was told %q", got)
	}
	b.promise("v0", third, 1, 100)
	b.promise("v1", third, 1, 100)
	b.granted(third, true)
}

func (b *bench) only(v vote.NodeID, want string) {
	b.t.Helper()
	if got := b.sentTo(v); got != want {
		b.t.Fatalf("%s was told %q, want %q", v, got, want)
	}
}

func TestATryLockIsTakenAtOnceByAnotherCallerOfItsNode(t *testing.T) {
	b, _, _ := wonAtOnce(t, 0)
	n := b.lock(true)
	if e := b.last(EventFailed); e == nil || e.Number != n || e.Wait.Reason != WaitHeld {
		t.Fatalf("%+v", e)
	}
	b.silent()
	// While no caller of the node is known to hold the key, the voters are asked.
	c := newBench(t, 3)
	c.all()
	c.lock(false)
	c.sentTo("v0")
	c.lock(true)
	c.only("v0", "request")
}

func TestADowngradeLetsTheNextOfTheQueueAsk(t *testing.T) {
	b, holder, waits := wonAtOnce(t, 1)
	b.q.Downgrade(b.now, holder)
	b.only("v0", "request downgrade")
	b.q.Release(b.now, holder)
	b.granted(waits[0], false)
	b.only("v0", "release")
}

func TestALostLeaseIsNotPassedOn(t *testing.T) {
	b, holder, waits := wonAtOnce(t, 1)
	b.q.Lapse(b.now, holder)
	b.granted(waits[0], false)
	b.only("v0", "request release")
}

func TestNoRequestWaitsBehindAYoungerStamp(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	b.lock(false)
	b.sentTo("v0")
	b.now.Wall -= 1_000_000 // the wall clock is set back
	b.lock(false)
	b.only("v0", "request")
	b.now.Wall += 2_000_000
	b.lock(false)
	b.only("v0", "")
}
