package quorum

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func TestTheOthersAreAskedInAWhile(t *testing.T) {
	b := as(t, "v0", 3)
	n := b.put("k")
	if got := b.said(vote.KindRequest); got != "V0 V1" {
		t.Fatalf("asked %q", got)
	}
	if at := b.q.Next(); at != b.now.Fast.Add(minHedgeDelay) {
		t.Errorf("the next instant is %v away", at.Sub(b.now.Fast))
	}
	b.pass(minHedgeDelay - 1)
	if got := b.sentTo("v2"); got != "" {
		t.Errorf("v2 was told %q too soon", got)
	}
	b.pass(1)
	if got := b.sentTo("v2"); got != "request" {
		t.Errorf("v2 was told %q", got)
	}
	b.promise("v0", n, 1, 100)
	b.promise("v2", n, 1, 100)
	b.granted(n, true)
}

// A lease that lasts is sent to the deferred voters as well, to rest on all voters.
func TestAHeldLeaseIsPutToTheOthersToo(t *testing.T) {
	b := as(t, "v0", 3)
	n := b.put("k")
	b.wins(n, 1, 100)
	b.sentTo("v2")
	b.pass(minHedgeDelay)
	if got := b.sentTo("v2"); got != "" {
		t.Errorf("v2 was told %q though the lease may be given back soon", got)
	}
	b.pass(minHedgeDelay)
	if got := b.sentTo("v2"); got != "request confirm" {
		t.Errorf("v2 was told %q", got)
	}
	b.pass(10 * minHedgeDelay)
	if got := b.sentTo("v2"); got != "" {
		t.Errorf("v2 was told %q once more", got)
	}
}

func TestAShortLockSparesAVoter(t *testing.T) {
	b := as(t, "v0", 3)
	for i := range vote.Serial(3) {
		n := b.put("k")
		b.wins(n, i+1, 100+1000*vote.Token(i))
		b.q.Release(b.now, n)
		for _, v := range b.names[:2] {
			b.sends(v, vote.Message{Kind: vote.KindReleased, Number: n})
		}
		if e := b.last(EventReleased); e == nil || e.Number != n || e.Wait.Reason != WaitNone {
			t.Fatalf("%+v", e)
		}
	}
	b.pass(maxHedgeDelay)
	if got := b.sentTo("v2"); got != "" || b.q.Open() != 0 {
		t.Errorf("v2 was told %q; %d requests are left", got, b.q.Open())
	}
	if b.q.Next() != b.q.refreshAt {
		t.Error("something is waited for")
	}
}

// The first voters may be silent when the lease is released; then a deferred voter's confirmation
// counts.
func TestAReleaseIsConfirmedByOneThatWasSpared(t *testing.T) {
	b := as(t, "v0", 3)
	n := b.put("k")
	b.wins(n, 1, 100)
	b.q.Release(b.now, n)
	b.sends("v0", vote.Message{Kind: vote.KindReleased, Number: n})
	b.sentTo("v2")
	b.pass(minHedgeDelay)
	if e := b.last(EventReleased); e != nil {
		t.Fatalf("one voter has confirmed, and %+v", e)
	}
	if got := b.sentTo("v2"); got != "release" {
		t.Fatalf("v2 was told %q", got)
	}
	b.sends("v2", vote.Message{Kind: vote.KindReleased, Number: n})
	if e := b.last(EventReleased); e == nil || e.Number != n || e.Wait.Reason != WaitNone {
		t.Fatalf("%+v", e)
	}
	if b.q.Open() == 0 {
		t.Error("it is forgotten though v1 has yet to confirm")
	}
	b.sends("v1", vote.Message{Kind: vote.KindReleased, Number: n})
	if b.q.Open() != 0 {
		t.Error("it isn't forgotten")
	}
}

// After such a release the expected digest of each voter is empty: v2 never received the request,
// and v1 has dropped the request. With a wrong digest nothing would be extended any more.
func TestTheDigestsAgreeAfterAReleaseThatASparedVoterConfirmed(t *testing.T) {
	b := as(t, "v0", 3)
	n := b.put("k")
	b.q.Release(b.now, n)
	b.pass(minHedgeDelay)
	if got := b.sentTo("v2"); got != "release" {
		t.Fatalf("v2 was told %q", got)
	}
	b.sends("v2", vote.Message{Kind: vote.KindReleased, Number: n})
	for _, p := range b.q.peers {
		if got := p.digest.settle(p.sent, p.received); got != (vote.Digest{}) {
			t.Errorf("%s is thought to keep %+v", p.name, got)
		}
	}
}

func TestAVoterThatTurnsARequestDownHasTheOthersAskedAtOnce(t *testing.T) {
	for _, kind := range []vote.Kind{vote.KindBusy, vote.KindHeld} {
		b := as(t, "v0", 3)
		n, err := b.q.Lock(b.now, Exclusive("k", true))
		if err != nil {
			t.Fatal(err)
		}
		b.sentTo("v2")
		b.sends("v1", vote.Message{Kind: kind, Number: n, Token: 5})
		if got := b.sentTo("v2"); got != "request" {
			t.Errorf("%v: v2 was told %q", kind, got)
		}
		b.pass(minHedgeDelay)
		if got := b.sentTo("v2"); got != "" {
			t.Errorf("%v: v2 was told %q besides", kind, got)
		}
		if got := b.sentTo("v1"); got != "request" {
			t.Errorf("%v: v1 was told %q, though it is known to turn the request down", kind, got)
		}
	}
}

// A voter that has let a request wait isn't among the first voters until its next message.
func TestASlowVoterIsNotAmongTheFirst(t *testing.T) {
	b := as(t, "v0", 3)
	n := b.put("k")
	b.promise("v0", n, 1, 100)
	b.pass(minHedgeDelay)
	b.promise("v2", n, 1, 100)
	b.granted(n, true)
	b.sentTo("v1")
	b.put("l")
	if got := b.said(vote.KindRequest); got != "V0 V2" {
		t.Errorf("asked %q", got)
	}
	b.promise("v1", n, 1, 100)
	b.said(vote.KindRequest)
	b.put("m")
	if got := b.said(vote.KindRequest); got != "V0 V1" {
		t.Errorf("asked %q when v1 had answered", got)
	}
}

// The deferral time follows the round trips measured on releases.
func TestVotersAreSparedForLongerUnderLoad(t *testing.T) {
	b := as(t, "v0", 3)
	trip := func(d time.Duration) {
		n := b.put("k")
		b.q.Release(b.now, n)
		b.now.Fast = b.now.Fast.Add(d)
		b.sends("v0", vote.Message{Kind: vote.KindReleased, Number: n})
		b.sends("v1", vote.Message{Kind: vote.KindReleased, Number: n})
	}
	const ms = time.Millisecond
	for _, row := range []struct{ trip, swing, least, most time.Duration }{
		{0, 0, minHedgeDelay, minHedgeDelay}, {4 * ms, 0, 8 * ms, 9 * ms}, {8 * ms, 4 * ms, 28 * ms, 36 * ms}, {time.Second, 0, maxHedgeDelay, maxHedgeDelay},
		{100 * time.Microsecond, 0, minHedgeDelay, minHedgeDelay},
	} {
		for range 50 {
			trip(row.trip - row.swing)
			trip(row.trip + row.swing)
		}
		if got := b.q.deliverer().hedgeDelay(); got < row.least || got > row.most {
			t.Errorf("%+v: voters are deferred for %v", row, got)
		}
	}
	trip(time.Second)
	b.q.cfg.TTL = 20 * vote.RefreshesPerTTL * ms
	b.q.leastTTL = b.q.cfg.TTL
	if got := b.q.deliverer().hedgeDelay(); got != 5*ms {
		t.Errorf("voters are deferred for %v, and sessions are refreshed every %v", got, b.q.every())
	}
}

// The last confirmation of a release shows nothing about a round trip: the voter may have received
// the release later, and no caller waits for this confirmation.
func TestOnlyTheMajorityThatConfirmsShowsHowLongARoundTripIs(t *testing.T) {
	b := as(t, "v0", 3)
	n := b.put("k")
	b.wins(n, 1, 100)
	b.pass(minHedgeDelay)
	b.pass(minHedgeDelay) // v2 has the request, too
	b.q.Release(b.now, n)
	b.sends("v0", vote.Message{Kind: vote.KindReleased, Number: n})
	b.sends("v1", vote.Message{Kind: vote.KindReleased, Number: n})
	b.now.Fast = b.now.Fast.Add(maxHedgeDelay)
	b.sends("v2", vote.Message{Kind: vote.KindReleased, Number: n})
	if b.q.Open() != 0 || b.q.deliverer().hedgeDelay() != minHedgeDelay {
		t.Errorf("%d requests are left, and voters are deferred for %v", b.q.Open(), b.q.deliverer().hedgeDelay())
	}
}

// The times of a request that is over don't count for the next request, which may have the same
// place in memory.
func TestANewRequestHasATimeOfItsOwn(t *testing.T) {
	b := as(t, "v0", 3)
	first := b.put("k")
	b.q.Release(b.now, first)
	b.sends("v0", vote.Message{Kind: vote.KindReleased, Number: first})
	b.sends("v1", vote.Message{Kind: vote.KindReleased, Number: first})
	if b.q.Open() != 0 {
		t.Fatal("the first request isn't over")
	}
	b.now.Fast = b.now.Fast.Add(minHedgeDelay / 2)
	b.put("l")
	b.pass(minHedgeDelay / 2)
	if got := b.sentTo("v2"); got != "" {
		t.Errorf("v2 was told %q, half a while too soon", got)
	}
	b.pass(minHedgeDelay / 2)
	if got := b.sentTo("v2"); got != "request" {
		t.Errorf("v2 was told %q", got)
	}
}

// No caller waits for the release of a request that failed, so the deferred voters receive no
// message about the request.
func TestASparedVoterHearsNothingOfARequestThatFailed(t *testing.T) {
	b := as(t, "x", 3)
	n := b.put("k")
	asked := strings.Fields(strings.ToLower(b.said(vote.KindRequest)))
	if len(asked) != 2 {
		t.Fatalf("asked %q", asked)
	}
	for _, v := range asked {
		b.sends(vote.NodeID(v), vote.Message{Kind: vote.KindRefused, Reason: vote.ReasonNotVoter})
	}
	if e := b.last(EventFailed); e == nil || e.Number != n {
		t.Fatalf("%+v", e)
	}
	b.pass(minHedgeDelay)
	b.pass(maxHedgeDelay)
	for _, v := range b.names {
		if got := b.sentTo(v); v != vote.NodeID(asked[0]) && v != vote.NodeID(asked[1]) && got != "" {
			t.Errorf("%s was told %q", v, got)
		}
	}
}

// A deferred voter that has left the electorate isn't asked, though its messages are still read.
func TestASparedVoterThatHasLeftIsNotAsked(t *testing.T) {
	f := follow(t, "7: a b c")
	n := f.lock(false)
	var rest string
	for _, v := range []string{"a", "b", "c"} {
		if f.sentTo(v) == "" {
			rest += v
		}
	}
	if len(rest) != 1 {
		t.Fatalf("%q weren't asked", rest)
	}
	f.reconfigureTo("8: " + strings.ReplaceAll("a b c", rest, "d"))
	f.sentTo(rest)
	f.pass(maxHedgeDelay)
	if got := f.sentTo(rest); got != "" || f.q.requests[n].hedging {
		t.Errorf("%s was told %q", rest, got)
	}
}

func TestWhatIsNotPlainIsPutToAllAtOnce(t *testing.T) {
	for _, ask := range []RequestOptions{
		{Spec: vote.Spec{Key: "k", Mode: vote.Shared}}, {Spec: vote.Spec{Key: "k", Mode: vote.Permit, Permits: 3}},
		{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Length: time.Second}}, {Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Delay: time.Second}},
	} {
		b := as(t, "v0", 3)
		if _, err := b.q.Lock(b.now, ask); err != nil {
			t.Fatal(err)
		}
		if got := b.said(vote.KindRequest); got != "V0 V1 V2" {
			t.Errorf("%+v: asked %q", ask, got)
		}
	}
}

// A proposal beyond a majority in agreement counts as a late message. Without such a majority the
// largest proposal counts, once confirmed.
func TestAMajorityThatAgreesWins(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	b.pass(maxHedgeDelay)
	b.promise("v0", n, 1, 1000)
	b.promise("v1", n, 1, 5000)
	b.granted(n, false)
	b.promise("v2", n, 1, 1000)
	b.granted(n, true)
	if e := b.last(EventGranted); e.Token != vote.Token(1000).First() {
		t.Errorf("token %d", e.Token)
	}
	b.sentTo("v1")
	// A late confirmation of the larger token.
	b.sends("v1", vote.Message{Kind: vote.KindConfirmed, Number: n, Serial: 1, Token: 5000})
	if b.q.requests[n].token != 1000 {
		t.Error("the lease has another token now")
	}

	// Readers need different tokens, so among readers the largest proposal counts.
	b = newBench(t, 3)
	b.all()
	n = b.ask(RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Shared}})
	b.promise("v1", n, 1, 5000)
	b.promise("v0", n, 1, 1000)
	b.promise("v2", n, 1, 1000)
	b.granted(n, false)
}

func TestAReleaseBringsATokenHintIfAnotherNodeWaits(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		b := as(t, "v0", 3)
		n := b.put("k")
		b.sends("v0", vote.Message{Kind: vote.KindPromise, Number: n, Serial: 1, Token: 100, Revoke: wanted})
		b.promise("v1", n, 1, 100)
		b.granted(n, true)
		b.drain()
		b.now.Wall += 777
		b.q.Release(b.now, n)
		out, _ := b.q.Drain(nil, nil)
		releases := 0
		for _, o := range out {
			if o.Message.Kind != vote.KindRelease {
				continue
			}
			releases++
			if got := o.Message.TokenHint; wanted && got != vote.TokenAt(b.now.Wall) || !wanted && got != 0 {
				t.Errorf("wanted: %v: hint %d", wanted, got)
			}
		}
		if releases != 2 {
			t.Errorf("%d releases", releases)
		}
	}
}

// The deferral time of a release begins at the release, however long the lease was held.
func TestASparedVoterIsToldOfAReleaseOnlyIfThatIsSlow(t *testing.T) {
	b := as(t, "v0", 3)
	n := b.put("k")
	b.pass(minHedgeDelay - 1)
	b.q.Release(b.now, n)
	b.sentTo("v2")
	b.pass(1)
	if got := b.sentTo("v2"); got != "" {
		t.Errorf("v2 was told %q as soon as the key was given back", got)
	}
	b.pass(minHedgeDelay)
	if got := b.sentTo("v2"); got != "release" {
		t.Errorf("v2 was told %q", got)
	}
}

// If no majority answers, a refresh after a yield is of no use.
func TestAVoteThatWasGivenBackIsFollowedByNoRefreshWithoutAMajority(t *testing.T) {
	b := as(t, "v0", 3)
	n := b.put("k")
	b.pass(b.q.refreshAt.Sub(b.now.Fast))
	b.promise("v1", n, 1, 100)
	b.q.Unlink(b.now, b.place("v0"))
	b.q.Unlink(b.now, b.place("v2"))
	b.sends("v1", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 1})
	if got := b.sentTo("v1"); !strings.HasSuffix(got, "yield") {
		t.Fatalf("v1 was told %q", got)
	}
	b.pass(yieldEvery)
	if got := b.sentTo("v1"); got != "" {
		t.Errorf("v1 was told %q", got)
	}
}

// A refresh soon follows a yield, so that the voter learns that this node reaches a majority.
// Yields in quick succession share a refresh.
func TestAVoteThatWasGivenBackIsFollowedByARefresh(t *testing.T) {
	b := as(t, "v0", 3)
	n := b.put("k")
	b.pass(b.q.refreshAt.Sub(b.now.Fast)) // all sessions are refreshed
	for serial := range vote.Serial(2) {
		b.promise("v1", n, serial+1, 100)
		b.sends("v1", vote.Message{Kind: vote.KindInquire, Number: n, Serial: serial + 1})
	}
	b.sentTo("v0")
	if got := b.sentTo("v1"); !strings.HasSuffix(got, "yield yield") {
		t.Fatalf("v1 was told %q", got)
	}
	b.q.ackSchedule.at = vote.Never // or else the voters were asked for acknowledgements, too
	b.pass(yieldEvery - 1)
	if got := b.sentTo("v1"); strings.Contains(got, "refresh") {
		t.Errorf("v1 was told %q so soon after the last refresh", got)
	}
	b.pass(1)
	if v0, v1 := b.sentTo("v0"), b.sentTo("v1"); v0 != "" || v1 != "refresh" {
		t.Errorf("v0 was told %q, v1 %q", v0, v1)
	}
}

// The acknowledgement of a refresh sent before the yield doesn't replace the refresh due after the
// yield.
func TestAVoteThatWasGivenBackIsFollowedByARefreshThoughAnotherIsAcknowledged(t *testing.T) {
	b := as(t, "v0", 3)
	n := b.put("k")
	b.pass(b.q.refreshAt.Sub(b.now.Fast)) // all sessions are refreshed
	b.promise("v1", n, 1, 100)
	b.sends("v1", vote.Message{Kind: vote.KindInquire, Number: n, Serial: 1})
	if got := b.sentTo("v1"); !strings.HasSuffix(got, "yield") {
		t.Fatalf("v1 was told %q", got)
	}
	b.ack("v1", nil)
	b.pass(yieldEvery)
	if got := b.sentTo("v1"); got != "refresh" {
		t.Errorf("v1 was told %q", got)
	}
	b.ack("v1", nil)
	b.pass(yieldEvery)
	if got := b.sentTo("v1"); got != "" {
		t.Errorf("v1 was told %q once more", got)
	}
}

// A deferred voter's confirmation of a release belongs to the majority that shows the round-trip
// time.
func TestTheWordOfASparedVoterShowsHowLongARoundTripIs(t *testing.T) {
	b := as(t, "v0", 3)
	n := b.put("k")
	b.wins(n, 1, 100)
	b.q.Release(b.now, n)
	b.sends("v0", vote.Message{Kind: vote.KindReleased, Number: n})
	b.pass(minHedgeDelay)
	if got := b.sentTo("v2"); got != "release" {
		t.Fatalf("v2 was told %q", got)
	}
	b.now.Fast = b.now.Fast.Add(10 * time.Millisecond)
	b.sends("v2", vote.Message{Kind: vote.KindReleased, Number: n})
	if got := b.q.deliverer().hedgeDelay(); got < 10*time.Millisecond {
		t.Errorf("voters are deferred for %v, where a release took more than 10ms", got)
	}
}
