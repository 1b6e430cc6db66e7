package lease

import (
	"strings"
	"testing"
)

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
func TestTheDelayOfAReclaimedLease(t *testing.T) {
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
func TestAReclaimedLeaseHasFewTimers(t *testing.T) {
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
