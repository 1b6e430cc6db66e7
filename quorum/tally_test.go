package quorum

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Benchmarks and the simulator's figures rest on the counters.
func TestWinsAreCounted(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	b.granted(n, true)
	if c := b.q.Counters(); c.Requests != 1 || c.Wins != 1 || c.FirstRound != 1 {
		t.Errorf("%+v", c)
	}
}

// Downgrade changes nothing for an unknown lease, and nothing for a request that hasn't won.
func TestAnUnknownLeaseCannotBeShared(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	if b.q.Downgrade(b.now, 99) {
		t.Error("a lease that never was is shared now")
	}
	n := b.lock(false)
	if b.q.Downgrade(b.now, n) {
		t.Error("a request that hasn't won is shared now")
	}
}

// After confirming a token for a vote, a voter may have given this vote to another request. The
// confirmation doesn't count for a later vote of the same voter.
func TestAConfirmationCountsForItsOwnVoteOnly(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 4, 100)
	b.sends("v0", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 4})
	b.promise("v0", n, 5, 90)
	b.promise("v1", n, 1, 105)
	b.sends("v0", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 4, Token: 105})
	b.granted(n, false)
	b.sends("v0", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 5, Token: 105})
	b.granted(n, true)
}

// While the link to a voter is broken, the voter may raise the token of its vote. The request
// hasn't won with the earlier token, although the vote has the same serial number.
func TestATokenRaisedMeanwhileIsTheVotes(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 5000)
	b.q.Unlink(b.now, b.place("v1"))
	b.link("v1", vote.Entry{Number: n, Serial: 1, Token: 9000})
	b.sends("v0", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 1, Token: 5000})
	b.granted(n, false)
	b.sends("v0", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 1, Token: 9000})
	b.granted(n, true)
	if e := b.last(EventGranted); e.Token != vote.Token(9000).First() {
		t.Errorf("token %d", e.Token)
	}
}

// Two voters with the same token are a majority: the win doesn't wait until both have confirmed the
// third voter's larger token.
func TestTwoThatAgreeDecideThoughTheFirstVoteWasForMore(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 1, 200)
	b.promise("v1", n, 1, 100)
	b.granted(n, false)
	b.promise("v2", n, 1, 100)
	b.granted(n, true)
	if e := b.last(EventGranted); e.Token != vote.Token(100).First() {
		t.Errorf("token %d", e.Token)
	}
}

// Leases with votes of the same voters end together, so they are one lease group with a single
// timer.
func TestLeasesThatRestOnTheSameVotersAreOneGroup(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	var groups []uint64
	for i, key := range []vote.Key{"one", "two"} {
		n := b.put(key)
		b.drain()
		b.wins(n, vote.Serial(i+1), 100)
		groups = append(groups, uint64(b.last(EventGranted).Group))
	}
	if groups[0] != groups[1] {
		t.Errorf("two leases, and the groups %d", groups)
	}
}

// A voter may show the token of an earlier vote that the voter has taken back. A waiting request is
// shown without a token.
func TestWhatWaitsIsShownWithoutAToken(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	nonce := b.q.Query(b.now, "k")
	b.show("v0", nonce, viewEntry(vote.Waiting, "a", 1, vote.Exclusive, 100))
	b.show("v1", nonce, viewEntry(vote.Waiting, "a", 1, vote.Exclusive, 0))
	e := b.last(EventQueryDone)
	if e == nil || e.Result == nil || len(e.Result.Views) != 1 {
		t.Fatalf("%+v", e)
	}
	if s := e.Result.Views[0]; s.Token != 0 {
		t.Errorf("it waits, and has the token %d", s.Token)
	}
}

// The requester refuses a token beyond all clocks if a single voter names the token, and takes such
// a token from two of three voters, since two can't both be wrong. The tally settles on the larger
// token.
func TestATokenThatEnoughVotersNameIsTaken(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	far := vote.MaxFrom(vote.TokenAt(b.now.Wall)) + 1_000_000
	b.promise("v0", n, 1, far)
	b.sentTo("v0")
	b.promise("v1", n, 1, far+1000)
	if got := b.sentTo("v0"); got != "confirm" {
		t.Fatalf("v0 was told %q", got)
	}
	b.sends("v0", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 1, Token: far + 1000})
	b.granted(n, true)
}

// A voter deposed by another process of the same name takes back all its promises. A lease without
// a majority among the other voters is lost at once, whatever time was left.
func TestALeaseIsOverWhenAVoterItNeedsGivesWay(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	b.granted(n, true)
	b.sends("v2", vote.Message{Kind: vote.KindRefused, Reason: vote.ReasonDeposed})
	if b.last(EventLost) != nil {
		t.Fatal("lost with a voter that it doesn't need")
	}
	b.sends("v1", vote.Message{Kind: vote.KindRefused, Reason: vote.ReasonDeposed})
	if e := b.last(EventLost); e == nil || e.Number != n {
		t.Error("one of two votes is void, and the lease goes on")
	}
}
