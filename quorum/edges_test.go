package quorum

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A requester closes the link of a voter that has answered nothing for half a TTL, so that a new
// stream can begin while half of the validity is left. An answering voter's link stays open.
func TestASilentVoterIsHungUpOn(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	closed := func(v vote.NodeID) bool {
		b.drain()
		for _, m := range b.heard[v] {
			if m.Kind == vote.KindNone {
				return true
			}
		}
		return false
	}
	for range 10 { // two TTLs: v0 answers each refresh, v1 and v2 answer none
		b.pass(ttl / 5)
		b.say("v0", vote.Message{
			Kind: vote.KindAck, Sent: b.now.Fast, Incarnation: 5, Generation: b.gen, Wall: b.now.Wall,
		})
	}
	if closed("v0") {
		t.Error("a voter that answers was hung up on")
	}
	if !closed("v1") || !closed("v2") {
		t.Error("a voter that has said nothing for two TTLs wasn't hung up on")
	}
}

// A request fails as soon as a majority of the voters refuses this node; no timer has to fire.
func TestARefusalEndsWhatWaits(t *testing.T) {
	b := newBench(t, 3)
	b.link("v0")
	n := b.lock(false)
	b.q.Refused(b.now, "v1", vote.ReasonNameTaken, "taken")
	b.granted(n, false)
	if b.last(EventFailed) != nil {
		t.Fatal("it failed though a majority may be left")
	}
	b.q.Refused(b.now, "v2", vote.ReasonNameTaken, "taken")
	if e := b.last(EventFailed); e == nil || e.Number != n {
		t.Fatal("two of three voters refuse this node, and the caller isn't told")
	}
}

// While a link to a voter is up, a failed dial to the same voter doesn't change the voter's state.
func TestAFailedDialBesideALinkChangesNothing(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	b.q.DialFailed(b.now, "v0", "no route")
	for _, s := range b.q.Voters(b.now) {
		if s.State != Reachable {
			t.Errorf("%s: %v, though its link is up", s.Name, s.State)
		}
	}
}

// The votes of a lease with a length of its own are extended now and then, not at every tick.
func TestALengthIsExtendedOnceInAWhile(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	w := Exclusive("k", false)
	w.Length = ttl
	n, err := b.q.Lock(b.now, w)
	if err != nil {
		t.Fatal(err)
	}
	b.drain()
	for _, v := range b.names {
		b.promise(v, n, 1, 100)
	}
	b.told("v0")
	extends := 0
	for range 100 {
		b.pass(ttl / 100)
		for _, v := range b.names {
			b.say(v, vote.Message{
				Kind: vote.KindAck, Sent: b.now.Fast, Incarnation: 5, Generation: b.gen, Wall: b.now.Wall,
			})
		}
		extends += strings.Count(b.told("v0"), "extend")
	}
	if extends < 2 || extends > 20 {
		t.Errorf("in the time of one length the voter was told %d times to extend its vote", extends)
	}
}

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

// Share changes nothing for an unknown lease, and nothing for a request that hasn't won.
func TestAnUnknownLeaseCannotBeShared(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	if b.q.Share(b.now, 99) {
		t.Error("a lease that never was is shared now")
	}
	n := b.lock(false)
	if b.q.Share(b.now, n) {
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
	b.say("v0", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 4})
	b.promise("v0", n, 5, 90)
	b.promise("v1", n, 1, 105)
	b.say("v0", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 4, Token: 105})
	b.granted(n, false)
	b.say("v0", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 5, Token: 105})
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
	b.say("v0", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 1, Token: 5000})
	b.granted(n, false)
	b.say("v0", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 1, Token: 9000})
	b.granted(n, true)
	if e := b.last(EventGranted); e.Token != vote.Token(9000).First() {
		t.Errorf("token %d", e.Token)
	}
}

// Two busy answers of a full voter take the request out of the expected digest only once.
func TestAVoterThatIsFullTwiceKeepsTheBook(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.say("v0", vote.Message{Kind: vote.KindBusy, Number: n})
	b.say("v0", vote.Message{Kind: vote.KindBusy, Number: n})
	b.told("v0")
	b.pass(ttl / 5)
	if got := b.told("v0"); !strings.Contains(got, "request") {
		t.Fatalf("v0 was told %q, and wasn't asked again", got)
	}
	// By now v0 has room for the request.
	b.trueAck("v0", vote.Digest{}.Plus(vote.DigestOfRequest(n)))
	if c := b.q.Counters().Mismatches; c != 0 {
		t.Errorf("%d mismatches: the expected digest takes the request out twice", c)
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

// No extension is sent to a voter without a vote for the lease.
func TestOnlyVotesThatStandAreExtended(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.short(ttl/2, false)
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	b.extended("v0", n, 1, b.now.Fast)
	b.extended("v1", n, 1, b.now.Fast)
	b.granted(n, true)
	b.told("v2")
	for range 5 {
		b.pass(ttl / 10)
		for _, v := range b.names {
			b.ack(v, nil)
		}
	}
	if got := b.told("v0"); !strings.Contains(got, "extend") {
		t.Fatalf("v0 has voted, and was told %q", got)
	}
	if got := b.told("v2"); strings.Contains(got, "extend") {
		t.Errorf("v2 hasn't voted, and was told %q", got)
	}
}

// A voter may show the token of an earlier vote that the voter has taken back. A waiting request is
// shown without a token.
func TestWhatWaitsIsShownWithoutAToken(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	nonce := b.q.Query(b.now, "k")
	b.show("v0", nonce, sight(vote.Waiting, "a", 1, vote.Exclusive, 100))
	b.show("v1", nonce, sight(vote.Waiting, "a", 1, vote.Exclusive, 0))
	e := b.last(EventQueryDone)
	if e == nil || e.Result == nil || len(e.Result.Views) != 1 {
		t.Fatalf("%+v", e)
	}
	if s := e.Result.Views[0]; s.Token != 0 {
		t.Errorf("it waits, and has the token %d", s.Token)
	}
}

// A watch can't be sent to a voter without a link. The voter is asked once its link is up.
func TestAWatchReachesAVoterWhenItsLinkIsUp(t *testing.T) {
	b := newBench(t, 3)
	b.link("v0")
	b.link("v1")
	b.told("v0")
	b.q.Watch(b.now, "k", false)
	if got := b.told("v0"); got != "watch" {
		t.Fatalf("v0 was told %q", got)
	}
	if got := b.told("v2"); got != "" {
		t.Errorf("v2 has no link, and was told %q", got)
	}
	b.link("v2")
	if got := b.told("v2"); !strings.Contains(got, "watch") {
		t.Errorf("v2 was told %q when its link was up", got)
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
	b.told("v0")
	b.promise("v1", n, 1, far+1000)
	if got := b.told("v0"); got != "confirm" {
		t.Fatalf("v0 was told %q", got)
	}
	b.say("v0", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 1, Token: far + 1000})
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
	b.say("v2", vote.Message{Kind: vote.KindRefused, Reason: vote.ReasonDeposed})
	if b.last(EventLost) != nil {
		t.Fatal("lost with a voter that it doesn't need")
	}
	b.say("v1", vote.Message{Kind: vote.KindRefused, Reason: vote.ReasonDeposed})
	if e := b.last(EventLost); e == nil || e.Number != n {
		t.Error("one of two votes is void, and the lease goes on")
	}
}

// A sync names the slot of a lease: a voter without this knowledge could give the slot to another
// request.
func TestALeaseIsStatedWithItsSlot(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.permit(2)
	b.slot("v0", n, 1, 2)
	b.slot("v1", n, 1, 2)
	b.granted(n, true)
	b.q.Unlink(b.now, b.place("v0"))
	b.told("v0")
	b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 5})
	all := b.asked("v0", vote.KindSync)
	if len(all) != 1 || len(all[0].Entries) != 1 || all[0].Entries[0].Slot != 2 {
		t.Errorf("the sync is %+v, want one entry with slot 2", all)
	}
}
