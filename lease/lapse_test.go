package lease

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
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
	if said := c.said(t, "b releases 1"); strings.Contains(said, "a: promise") {
		t.Fatalf("the silent owner has the vote again:\n%s", said)
	}
	wants(t, c.said(t, "a refreshes received=2 trip=1"), "a: promise 1 serial=3")
}

// The request whose vote has lapsed goes behind the requests that waited then, though it is older,
// and though its owner, which reaches no majority, is heard of again before the next vote.
func TestALapsedRequestGoesBehindTheOthers(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "b opens", "c opens", "a opens ttl=900ms", "a refreshes received=0 trip=1", "a asks 1:k at=10 length=200ms", "b asks 1:k at=20", "c asks 1:k at=30")
	wants(t, c.said(t, "pass 200ms"), "a: lapsed 1 serial=1", "b: promise 1 serial=2")
	c.all(t, "a refreshes received=2")
	wants(t, c.said(t, "b releases 1"), "c: promise 1 serial=3")
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
	c.all(t, "awake 3", "b opens", "a opens ttl=200ms", "a asks 1:k at=10 length=300ms delay=600ms", "a breaks", "pass 250ms")
	wants(t, c.said(t, "a syncs 1:k:length=300ms:delay=600ms ttl=400ms"), "[1 serial=1 token=32]")
	c.all(t, "a breaks", "b refreshes received=0", "b asks 1:k at=20")
	if said := c.said(t, "pass 299ms"); strings.Contains(said, "b: promise") {
		t.Fatalf("the length was cut short:\n%s", said)
	}
	wants(t, c.said(t, "pass 1ms"), "b: promise 1") // no lock-delay: there was no lease
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

// A lease has lapsed at this voter. TryLocks that were told of the lease wait for the key again,
// queries don't show the lease, and watches are told of its end, once. When the owner reports that
// the lease goes on, the lease is shown as before.
func TestALapsedLeaseIsOverUntilItsOwnerReportsIt(t *testing.T) {
	l := listen(t, "a asks 1:k length=300ms at=10 hint=100", "a extends 1 serial=1", "a confirms 1 serial=1 token=115 won")
	wants(t, l.said(t, "b asks 1:k at=20 try"), "b: held 1")
	l.want(word(vote.Holding, "a1@115/0"))
	shown := func() (all []vote.State) {
		for _, s := range l.views("k") {
			all = append(all, s.State)
		}
		return all
	}
	wants(t, l.said(t, "pass 300ms"), "a: lapsed 1 serial=1", "b: promise 1 serial=2")
	l.want(word(vote.Ended, "a1@115/0"))
	if got := shown(); !slices.Equal(got, []vote.State{vote.Promised}) {
		t.Errorf("shown: %v", got)
	}
	l.all(t, "a refreshes received=4", "a confirms 1 token=115 won") // the refresh says nothing of the lease
	l.want(word(vote.GrantedElsewhere, "a1@115/0"))
	if got := shown(); !slices.Equal(got, []vote.State{vote.Promised, vote.Holding}) {
		t.Errorf("shown: %v", got)
	}
	wants(t, l.said(t, "b releases 1"), "a: promise 1 serial=3 token=115")
	l.all(t, "a extends 1 serial=3", "pass 300ms", "a refreshes received=6", "a breaks", "pass 2s")
	l.want(word(vote.Ended, "a1@115/0"))
}

// A lease was granted, and its report was lost. A refresh that was sent before the grant revives
// the lapsed request here, and the owner falls silent: the key rests as long as without the
// refresh.
func TestAnOldRefreshShortensNoRest(t *testing.T) {
	for _, kind := range []string{"", "shared", "permits=2"} {
		for _, rest := range []string{"delay=700ms", "minhold=700ms"} {
			c := newTalk()
			c.all(t, "awake 3", "b opens", "a opens ttl=1s", "a refreshes received=0 trip=1", "a asks 1:k at=10 length=200ms "+rest+" "+kind,
				"a extends 1 serial=1", "b asks 1:k at=20", "pass 200ms", "b refreshes received=0")
			wants(t, c.said(t, "a refreshes received=0 trip=1"), "a: promise 1")
			if said := c.said(t, "pass 690ms"); strings.Contains(said, "b: promise") {
				t.Errorf("%s %s: the rest was cut short:\n%s", kind, rest, said)
			}
			if said := c.said(t, "pass 50ms"); !strings.Contains(said, "b: promise 1") {
				t.Errorf("%s %s: the key still rests:\n%s", kind, rest, said)
			}
		}
	}
}

// A TryLock was told of a residual vote. When its request takes the vote back, the TryLock is told
// of the lease that keeps the key now, since the other voters tell it of that lease.
func TestATryLockIsToldAgainWhenAVoteIsTakenBack(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "c opens", "b asks 1:k shared at=10", "b confirms 1 serial=1 token=96 won",
		"a asks 1:k shared length=200ms delay=700ms at=20 hint=500", "a extends 1 serial=2", "pass 200ms")
	wants(t, c.said(t, "c asks 1:k try at=30"), "c: held 1 token=500")
	wants(t, c.said(t, "a refreshes received=0 trip=1"), "c: held 1 token=96")
}

// An upgrade has lapsed, and so has the lease that it upgrades. It rejects no other upgrade until
// it goes on; then one of the two is rejected, since each waits for the other's lease.
func TestALapsedUpgradeRejectsNoOther(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "a asks 1:k shared length=200ms at=10", "a extends 1 serial=1",
		"a confirms 1 serial=1 token=96 won", "a asks 2:k beside=1 length=200ms at=20", "pass 200ms", "b asks 1:k shared at=30")
	if said := c.said(t, "b asks 2:k beside=1 at=40"); strings.Contains(said, "clash") || !strings.Contains(said, "b: promise 2") {
		t.Errorf("a lapsed upgrade keeps another from the key:\n%s", said)
	}
	wants(t, c.said(t, "a refreshes received=4"), "b: clash 2")
}

// A vote for a shared lease, or for a permit, lapsed, and the minimum hold keeps the key. When the
// request has a new vote, queries show that vote, and not the former one beside it.
func TestARevivedRequestIsShownOnce(t *testing.T) {
	for _, kind := range []string{"shared", "permits=2", ""} {
		for _, won := range []bool{true, false} {
			l := listen(t, "a asks 1:k length=300ms minhold=900ms at=10 hint=100 "+kind, "a extends 1 serial=1")
			want, again := vote.Promised, "a refreshes received=3"
			if won {
				l.all(t, "a confirms 1 serial=1 token=115 won")
				want, again = vote.Holding, "a confirms 1 token=115 won"
			}
			l.all(t, "pass 300ms", again)
			if views := l.views("k"); len(views) != 1 || views[0].State != want {
				t.Errorf("%s, won %v: queries show %+v", kind, won, views)
			}
		}
	}
}

// A lapsed lease whose owner lists it in a sync, or extends its former vote, goes on.
func TestALapsedLeaseGoesOnWithAnyMessageAboutIt(t *testing.T) {
	for _, line := range []string{"a syncs 1:k:won=115:length=300ms", "a extends 1 serial=1"} {
		l := listen(t, "a asks 1:k length=300ms at=10 hint=100", "a extends 1 serial=1", "a confirms 1 serial=1 token=115 won", "pass 300ms")
		l.want(word(vote.Holding, "a1@115/0"), word(vote.Ended, "a1@115/0"))
		if said := l.said(t, line); !strings.Contains(said, "1 serial=2 token=115") {
			t.Errorf("%s: no vote for the lease:\n%s", line, said)
		}
		l.want(word(vote.GrantedElsewhere, "a1@115/0"))
	}
}

// A lapsed request keeps no other request from the key in any other way: it sets no number of
// permits, and asks no holder to give way. A live request that waits for long leaves nothing behind
// at each lapse.
func TestALapsedRequestHasNoUse(t *testing.T) {
	c := newTalk()
	c.all(t, "awake 3", "a opens", "b opens", "c opens", "a asks 1:k permits=2 at=10 length=200ms", "pass 200ms")
	wants(t, c.said(t, "b asks 1:k permits=3 at=20"), "b: promise 1")
	wants(t, c.said(t, "c asks 1:k permits=2 at=30"), "c: permits-differ 1 permits=3")

	for _, spec := range []string{"delay=700ms", "minhold=700ms", "shared delay=700ms", "permits=3 minhold=700ms"} {
		c = newTalk()
		c.all(t, "awake 3", "a opens", "b opens", "a asks 1:k at=10 length=100ms "+spec)
		for range 5 {
			c.all(t, "pass 150ms", "a refreshes received=0 trip=1")
		}
		if n := c.v.Size().Residuals; n != 0 {
			t.Errorf("%s: %d residual votes", spec, n)
		}
	}
}
