package lease

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A connection given up long ago may still deliver its sync after the session has ended, when the
// voter has forgotten the streams. The late sync must not end the vote of a lease with a length of
// its own: the owner counts the vote.
func TestALateSyncEndsNoLeaseThatOutlivesItsSession(t *testing.T) {
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

// A voter asks for the slot of the youngest request without a win. A request without a connection
// can't be asked, so the voter asks another request; else all would wait for the end of the
// session.
func TestASlotIsAskedForOfAConnectedOwner(t *testing.T) {
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
func TestATryLockQueuesAgainWhereAResidualVoteWasNoLease(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens ttl=200ms", "a asks 1:k at=10 delay=700ms", "b asks 1:k at=20 try", "a breaks")
	wants(t, c.said(t, "pass 250ms"), "b: held 1")
	wants(t, c.said(t, "a syncs 1:k:delay=700ms", "a yields 1 serial=1"), "a: inquire 1 serial=1", "b: promise 1")
}

// A tentative vote that has outlasted its length leaves a residual vote; a TryLock learns of the
// residual vote at once.
func TestATryLockIsToldOfAVoteThatHasOutlastedItsLength(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens", "c opens", "a asks 1:k at=10 length=100ms delay=800ms", "a extends 1 serial=1", "c asks 1:k at=3", "b asks 1:k at=5 try")
	wants(t, c.said(t, "pass 110ms"), "a: lapsed 1 serial=1", "b: held 1")
}

// A TryLock that was told that its key is taken blocks the requests behind no longer.
func TestRequestsBehindATryLockThatWasNotified(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens", "c opens")
	c.all(t, "a asks 1:k at=10 permits=2 minhold=500ms", "b asks 1:k at=20 try", "c asks 1:k at=30 permits=2")
	wants(t, c.said(t, "a releases 1 lost"), "b: held 1", "c: promise 1")
}

// A TryLock of a reader may be told of a lease with which the reader is compatible, since a writer
// is queued in front. Once the reader's round is reset, the reader is in front of the writer and
// gets the key.
func TestAReaderWithItsRoundResetPassesTheWriter(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "c opens", "c asks 1:k at=10 shared try", "b asks 1:k at=20", "pass 150ms", "c yields 1 serial=1")
	c.all(t, "a asks 1:k at=5 shared", "b yields 1 serial=2")
	wants(t, c.said(t, "a confirms 1 serial=3 token=2000065 won"), "c: held 1")
	wants(t, c.said(t, "c refreshes received=3 trip=1"), "c: promise 1")
}

// A TryLock that was told of a residual vote is in front of the owner that reclaims the vote, so
// the voter asks the owner whether the owner has won.
func TestATryLockBlockedByAResidualVoteAsksTheOwnerThatHasTheVoteBack(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens", "a asks 1:k at=10 length=100ms delay=800ms", "a extends 1 serial=1", "b asks 1:k at=5 try")
	wants(t, c.said(t, "pass 110ms"), "b: held 1")
	wants(t, c.said(t, "a refreshes received=0"), "a: promise 1 serial=2", "a: inquire 1 serial=2")
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
	wants(t, c.said(t, "a confirms 1 serial=1 token=2000001 won"), "b: held 1", `a: contended 1 revoke who=d "deploy"`)
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
