package lease

import (
	"strings"
	"testing"
)

// A vote for a request with a length that its owner never extends ends after the length if the
// owner is gone, however much longer the session lasts.
func TestAVoteThatIsNeverExtendedEndsWithItsLength(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens ttl=900ms", "a refreshes received=0 trip=1", "a asks 1:k at=10 length=200ms", "a breaks", "b asks 1:k at=20")
	if said := c.said(t, "pass 199ms"); strings.Contains(said, "b: promise") {
		t.Fatalf("the vote ended within the length:\n%s", said)
	}
	wants(t, c.said(t, "pass 1ms"), "b: promise 1 serial=2")
}

// The same vote ends if its owner is linked and silent, and the request goes behind the others.
func TestAVoteThatIsNeverExtendedEndsWhileItsOwnerIsSilent(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens ttl=900ms", "a refreshes received=0 trip=1", "a asks 1:k at=10 length=200ms", "b asks 1:k at=20")
	wants(t, c.said(t, "pass 200ms"), "a: lapsed 1 serial=1", "b: promise 1 serial=2")
	wants(t, c.said(t, "b releases 1"), "a: promise 1 serial=3")
}

// While the owner is linked, the vote lasts for the proposal timeout at least: the requester may
// need as long to learn of the votes of a majority.
func TestAVoteThatIsNeverExtendedOutlastsTheProposalTimeout(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens ttl=800ms", "a asks 1:k at=10 length=50ms", "b asks 1:k at=20")
	if said := c.said(t, "pass 99ms"); strings.Contains(said, "lapsed") {
		t.Fatalf("the vote ended within the proposal timeout of an eighth of the TTL:\n%s", said)
	}
	wants(t, c.said(t, "pass 1ms"), "a: lapsed 1 serial=1", "b: promise 1 serial=2")
}

// A vote that was extended ends with the extension, not with the length after the promise.
func TestAVoteThatIsExtendedForgetsTheEndOfItsPromise(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens ttl=900ms", "a refreshes received=0 trip=1", "a asks 1:k at=10 length=200ms", "pass 150ms",
		"a extends 1 serial=1", "b asks 1:k at=20", "a breaks")
	if said := c.said(t, "pass 199ms"); strings.Contains(said, "b: promise") {
		t.Fatalf("the vote ended before its extension:\n%s", said)
	}
	wants(t, c.said(t, "pass 1ms"), "b: promise 1 serial=2")
}

// A residual vote that its owner reclaims without having extended it ends like a new vote.
func TestAReclaimedVoteThatIsNeverExtendedEnds(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens ttl=200ms", "a asks 1:k at=10 length=100ms delay=700ms", "a breaks", "pass 250ms")
	wants(t, c.said(t, "a syncs 1:k:length=100ms:delay=700ms ttl=300ms"), "[1 serial=1 token=32]")
	c.all(t, "a breaks", "b refreshes received=0", "b asks 1:k at=20")
	if said := c.said(t, "pass 799ms"); strings.Contains(said, "b: promise") {
		t.Fatalf("the length or the delay was cut short:\n%s", said)
	}
	// The delay is longer by as much as clocks may differ, and the session lasts for 200ms more.
	wants(t, c.said(t, "b refreshes received=0", "pass 20ms"), "b: promise 1")
}

// The session ends before the length of a vote that was never extended: the lock-delay lasts on.
func TestALockDelayOutlastsTheLengthOfAVoteThatIsNeverExtended(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens ttl=200ms", "a asks 1:k at=10 length=300ms delay=600ms", "b asks 1:k at=20", "a breaks")
	if said := c.said(t, "pass 799ms"); strings.Contains(said, "b: promise") {
		t.Fatalf("the delay was cut short:\n%s", said)
	}
	wants(t, c.said(t, "b refreshes received=0", "pass 20ms"), "b: promise 1")
}

// A lease was granted, and its owner was cut off before it reported the grant: after the length the
// next request has its turn, though the owner's session lasts and its request is older.
func TestALeaseThatWasNeverReportedEndsForTheNextRequest(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "a opens ttl=900ms", "a refreshes received=0 trip=1", "a asks 1:k at=10 length=200ms", "a extends 1 serial=1", "b asks 1:k at=20")
	wants(t, c.said(t, "pass 200ms"), "a: lapsed 1 serial=1", "b: promise 1 serial=2")
}
