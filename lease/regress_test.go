package lease

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// said runs some lines, and returns the voter's messages.
func (c *talk) said(t *testing.T, lines ...string) string {
	t.Helper()
	c.buf.Reset()
	c.all(t, lines...)
	return c.buf.String()
}

// wants fails unless the messages contain all of the words.
func wants(t *testing.T, said string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Fatalf("%q is missing:\n%s", w, said)
		}
	}
}

// A connection given up long ago may still deliver its sync after the session has ended, when the
// voter has forgotten the streams. The late sync must not end the vote of a lease with a length of
// its own: the owner counts the vote.
func TestALateStatementEndsNoLeaseThatOutlivesItsSession(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens")
	c.streams["a"] = 3
	c.all(t, "a opens ttl=200ms", "a asks 1:k at=10 length=900ms", "a extends 1 serial=1", "a confirms 1 serial=1 token=2000001 won")
	c.all(t, "b asks 1:k at=20", "a breaks", "pass 300ms", "b refreshes received=1")
	conn, from := vote.Conn(20), vote.SessionID{Node: "a", Incarnation: 1}
	c.buf.Reset()
	for _, m := range []vote.Message{{Kind: vote.KindOpen, Stream: 2, TTL: ttlMin}, {Kind: vote.KindSync, Stream: 2, End: true}} {
		c.hear(c.v.Step(c.now, conn, from, &m, nil))
	}
	if strings.Contains(c.buf.String(), "b: promise") {
		t.Fatalf("the key was given to another 300ms after it was promised for 900ms:\n%s", c.buf.String())
	}
	wants(t, c.said(t, "a syncs 1:k:won=2000001:length=900ms"), "[1 serial=1 token=2000001]")
}

const ttlMin = vote.MinTTL

// The voter doesn't know whether and when the lease was won, so the minimum hold counts from the
// owner's last message, even if the session had ended before.
func TestTheLeastTimeToHoldOfALeaseThatWasNeverReported(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens ttl=200ms", "a asks 1:k at=10 length=300ms minhold=800ms", "a extends 1 serial=1", "b asks 1:k at=20")
	c.all(t, "a breaks", "pass 250ms", "b refreshes received=0")
	// The lease was won and released, and neither message has arrived.
	if said := c.said(t, "a opens ttl=200ms"); strings.Contains(said, "b: promise") {
		t.Fatalf("the key is free 250ms after it may have been won for at least 800ms:\n%s", said)
	}
	if said := c.said(t, "pass 500ms", "b refreshes received=0"); strings.Contains(said, "b: promise") {
		t.Fatalf("the key is free 750ms after it may have been won for at least 800ms:\n%s", said)
	}
	wants(t, c.said(t, "pass 320ms"), "b: promise 1 serial=2")
}

// For a lease that was reclaimed after its session had ended, the delay counts from the end of the
// lease's length, once.
func TestTheDelayOfALeaseThatWasTakenUpAgain(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens ttl=200ms", "a asks 1:k at=10 length=300ms delay=300ms", "a extends 1 serial=1", "a confirms 1 serial=1 token=2000001 won")
	c.all(t, "b asks 1:k at=20", "a breaks", "pass 250ms", "b refreshes received=1")
	c.all(t, "a syncs 1:k:won=2000001:length=300ms:delay=300ms") // and the node of a dies
	wants(t, c.said(t, "pass 100ms", "b queries 1:k"), "a 1 exclusive resting")
	c.all(t, "pass 200ms", "b refreshes received=1")
	wants(t, c.said(t, "pass 60ms"), "b: promise 1 serial=2")
}

// A lease of a dead node isn't shown as held after the lease's length, while its delay lasts.
func TestADelayIsNotShownAsALease(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens ttl=200ms", "a asks 1:k at=10 length=300ms delay=300ms", "a extends 1 serial=1", "a confirms 1 serial=1 token=2000001 won")
	wants(t, c.said(t, "a breaks", "pass 250ms", "b queries 1:k"), "a 1 exclusive holding")
	wants(t, c.said(t, "pass 100ms", "b queries 1:k"), "a 1 exclusive resting")
}

// A rest ends at different times at different voters, by as much as clocks may differ. The proposal
// timeout of the first request in the queue begins when the rest has ended at every voter.
func TestAProposalTimeoutBeginsWhenTheRestIsOverEverywhere(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens ttl=200ms", "a refreshes received=0 trip=1", "b opens ttl=200ms", "b refreshes received=0 trip=1", "c opens ttl=200ms")
	c.all(t, "a asks 1:k at=10 minhold=900ms", "a confirms 1 serial=1 token=2000001 won", "a releases 1", "b asks 1:k at=20", "c asks 1:k at=30")
	for i := range 9 {
		c.all(t, "pass 100ms", "b refreshes received=0 trip=1", "c refreshes received=0")
		if i%2 == 0 {
			c.all(t, "b syncs 1:k", "c syncs 1:k")
		}
	}
	wants(t, c.said(t, "pass 9100us"), "b: promise 1 serial=2")
	if said := c.said(t, "pass 25ms"); strings.Contains(said, "inquire") {
		t.Fatalf("it is passed over though the key may rest elsewhere:\n%s", said)
	}
	// 20ms, and the 9ms by which clocks may differ
	wants(t, c.said(t, "pass 5ms"), "b: inquire 1 serial=2")
}

// A lease with a length of its own outlives its session again and again: its timers don't add up.
func TestALeaseThatIsTakenUpAgainHasFewTimers(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens ttl=200ms", "a asks 1:k at=10 length=900ms", "a extends 1 serial=1", "a confirms 1 serial=1 token=2000001 won")
	for range 50 {
		c.all(t, "a breaks", "pass 300ms", "a syncs 1:k:won=2000001:length=900ms ttl=200ms", "a extends 1 serial=1")
	}
	if n := len(c.v.votes.reminders); n > 10 {
		t.Fatalf("%d timers for one vote", n)
	}
	if said := c.said(t, "a breaks", "pass 899ms", "a queries 1:k"); !strings.Contains(said, "holding") {
		t.Fatalf("it ended before its time:\n%s", said)
	}
	if said := c.said(t, "pass 2ms", "a queries 1:k"); strings.Contains(said, "k: a 1") {
		t.Fatalf("it didn't end:\n%s", said)
	}
}

// A vote has outlasted its length at a voter, while the lease goes on by the other votes: the owner
// gets the vote back with its next message about the lease. Other requests wait for the rest that
// follows the lease; the owner doesn't wait for the rest of its own lease.
func TestAnOwnerDoesNotWaitForItsOwnRest(t *testing.T) {
	for _, rest := range []string{"delay=800ms", "minhold=900ms"} {
		for _, word := range []string{"a confirms 1 token=2000001 won", "a extends 1 serial=1", "a syncs 1:k:won=2000001:length=100ms:" + rest} {
			c := newTalk()
			c.all(t, "awake 3", "b opens", "a opens", "a asks 1:k at=10 length=100ms "+rest, "a extends 1 serial=1", "a confirms 1 serial=1 token=2000001 won")
			c.all(t, "b asks 1:k at=20")
			if said := c.said(t, "pass 110ms", "b queries 1:k"); strings.Contains(said, "promise") {
				t.Fatalf("%s: it is promised before its owner has said that it goes on:\n%s", rest, said)
			}
			wants(t, c.said(t, word), "1 serial=2 token=2000001")
			if said := c.said(t, "a extends 1 serial=2", "pass 100ms", "b queries 1:k"); strings.Contains(said, "b: promise") {
				t.Fatalf("%s: there was nothing to wait for:\n%s", rest, said)
			}
			if n := c.v.Size().Residuals; n != 1 {
				t.Fatalf("%s: %d residual votes", rest, n)
			}
		}
	}
}

// The same for one permit of two: the owner gets a free slot, and not the slot of another holder.
func TestAnOwnerOfAPermitDoesNotWaitForItsOwnRest(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens", "b asks 1:k permits=2 at=5", "b confirms 1 serial=1 slot=1 token=2000001 won")
	c.all(t, "a asks 1:k at=10 permits=2 length=100ms delay=800ms", "a extends 1 serial=2", "a confirms 1 serial=2 slot=2 token=2000033 won", "pass 110ms")
	wants(t, c.said(t, "a confirms 1 slot=2 token=2000033 won"), "a: promise 1 serial=3")
	if votes := c.v.Votes("k"); len(votes) != 2 || votes[0].Slot == votes[1].Slot {
		t.Fatalf("%+v", votes)
	}
}

// A voter asks for the slot of the youngest request without a win. A request without a connection
// can't be asked, so the voter asks another request; else all would wait for the end of the
// session.
func TestASlotIsAskedForOfOneThatCanHear(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
	}{
		{"gone before", []string{"c breaks", "a asks 1:k at=10 permits=2"}},
		{"gone when it was asked", []string{"a asks 1:k at=10 permits=2", "c breaks", "d asks 1:k at=40 permits=2"}},
	} {
		l := newTalk()
		l.all(t, "awake 3", "a opens", "b opens", "c opens", "d opens", "b asks 1:k at=20 permits=2", "c asks 1:k at=30 permits=2")
		if said := l.said(t, c.lines...); !strings.Contains(said, "b: inquire 1 serial=1") {
			t.Errorf("%s:\n%s", c.name, said)
		}
	}
}

// A residual vote may turn out not to belong to a lease: its owner comes back without a win. A
// TryLock that was told of a lease is queued again.
func TestATryLockStandsInLineAgainWhereAResidualVoteWasNoLease(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens ttl=200ms", "a asks 1:k at=10 delay=700ms", "b asks 1:k at=20 try", "a breaks")
	wants(t, c.said(t, "pass 250ms"), "b: taken 1")
	wants(t, c.said(t, "a syncs 1:k:delay=700ms", "a yields 1 serial=1"), "a: inquire 1 serial=1", "b: promise 1")
}

// A tentative vote that has outlasted its length leaves a residual vote; a TryLock learns of the
// residual vote at once.
func TestATryLockIsToldOfAVoteThatHasOutlastedItsLength(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens", "c opens", "a asks 1:k at=10 length=100ms delay=800ms", "a extends 1 serial=1", "c asks 1:k at=3", "b asks 1:k at=5 try")
	wants(t, c.said(t, "pass 110ms"), "a: lapsed 1 serial=1", "b: taken 1")
}

// A TryLock that was told that its key is taken blocks the requests behind no longer.
func TestRequestsBehindATryLockThatWasNotified(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens", "c opens")
	c.all(t, "a asks 1:k at=10 permits=2 minhold=500ms", "b asks 1:k at=20 try", "c asks 1:k at=30 permits=2")
	wants(t, c.said(t, "a releases 1 lost"), "b: taken 1", "c: promise 1")
}

// A TryLock of a reader may be told of a lease with which the reader is compatible, since a writer
// is queued in front. Once the reader's round is reset, the reader is in front of the writer and
// gets the key.
func TestAReaderWithItsRoundResetPassesTheWriter(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "c opens", "c asks 1:k at=10 shared try", "b asks 1:k at=20", "pass 150ms", "c yields 1 serial=1")
	c.all(t, "a asks 1:k at=5 shared", "b yields 1 serial=2")
	wants(t, c.said(t, "a confirms 1 serial=3 token=2000065 won"), "c: taken 1")
	wants(t, c.said(t, "c refreshes received=3 trip=1"), "c: promise 1")
}

// A TryLock that was told of a residual vote is in front of the owner that reclaims the vote, so
// the voter asks the owner whether the owner has won.
func TestATryLockBlockedByAResidualVoteAsksTheOwnerThatHasTheVoteBack(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens", "a asks 1:k at=10 length=100ms delay=800ms", "a extends 1 serial=1", "b asks 1:k at=5 try")
	wants(t, c.said(t, "pass 110ms"), "b: taken 1", "a: promise 1 serial=2", "a: inquire 1 serial=2")
	wants(t, c.said(t, "a yields 1 serial=2"), "b: promise 1")
}

// Only a lease waits for another lease to leave its slot. A request without a win gets another slot
// at once, and may win with this slot.
func TestARequestDoesNotWaitForLeasesToChangePlaces(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens")
	wants(t, c.said(t, "b asks 1:k permits=4 at=5"), "b: promise 1 serial=1 slot=3")
	wants(t, c.said(t, "b confirms 1 serial=1 slot=4 token=2000001 won", "a asks 1:k at=10 permits=4"), "a: promise 1 serial=2 slot=4")
	wants(t, c.said(t, "a yields 1 serial=2 slot=3"), "a: promise 1 serial=3 slot=4")
}

// A TryLock sends the holder no revoke request, so a TryLock hides no revoke request of a request
// behind. (Found beyond the assumptions, as a difference between two implementations.)
func TestATryLockWithARevokeHidesNoOtherRevoke(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "c opens", "d opens", "a asks 1:k at=10", "b asks 1:k at=20 try", "b revokes-for 1",
		"c asks 1:k at=30", "d asks 1:k at=40", "d revokes-for 1 why=deploy")
	wants(t, c.said(t, "a confirms 1 serial=1 token=2000001 won"), "b: taken 1", `a: contended 1 revoke who=d "deploy"`)
}

// A TryLock that reclaims its residual vote counts again among the TryLocks with votes. (talk.do
// compares the count with all TryLocks after each step.)
func TestATryLockThatReclaimsItsVoteIsCounted(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens ttl=200ms", "b opens", "a asks 1:k at=10 delay=700ms try", "a breaks", "pass 250ms")
	if votes := c.v.Votes("k"); len(votes) != 1 || !votes[0].Residual {
		t.Fatalf("the TryLock was to have a residual vote: %+v", votes)
	}
	wants(t, c.said(t, "a syncs 1:k:delay=700ms:try"), "a: answer generation=3 [1 serial=1")
	if votes := c.v.Votes("k"); len(votes) != 1 || votes[0].Residual {
		t.Fatalf("the TryLock was to have its vote back: %+v", votes)
	}
	c.all(t, "b asks 1:k at=20", "a releases 1")
}
