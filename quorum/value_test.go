package quorum

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func (b *bench) noted(v vote.NodeID, n vote.Number, version uint64) {
	b.sends(v, vote.Message{Kind: vote.KindValueStored, Number: n, Version: version})
}

// values returns the versions of the values sent to a voter since the last call.
func (b *bench) values(v vote.NodeID) (versions []uint64) {
	for _, m := range b.asked(v, vote.KindSetValue) {
		versions = append(versions, m.Version)
	}
	return versions
}

func TestAValueIsNotedByAMajority(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.ask(RequestOptions{Spec: vote.Spec{Key: "k"}, Value: []byte("one")})
	b.noted("v0", n, 1)
	if v := b.q.SetValue(b.now, n, []byte("two")); v != 2 {
		t.Fatalf("version %d", v)
	}
	b.noted("v1", n, 1)
	b.noted("v0", n, 99) // there is no such version
	b.noted("v0", n, 2)
	if e := b.last(EventValueSet); e != nil {
		t.Fatalf("one voter is enough: %+v", e)
	}
	b.noted("v1", n, 2)
	b.noted("v2", n, 2)
	told := 0
	for _, e := range b.events {
		if e.Kind == EventValueSet {
			told++
		}
	}
	if e := b.last(EventValueSet); told != 1 || e.Number != n || e.Version != 2 {
		t.Fatalf("told %d times, last %+v", told, e)
	}
	if b.q.SetValue(b.now, 77, nil) != 0 {
		t.Fatal("what isn't there has a value")
	}
}

func TestAValueIsToldAgainToAVoterThatMayHaveLostIt(t *testing.T) {
	relink := func(b *bench) { b.link("v0") }
	for _, c := range []struct {
		name  string
		again func(b *bench)
		want  int
	}{
		{"the same session", relink, 0},
		{"another session: the voter has dropped the old one with all that it had", func(b *bench) {
			b.gen++
			b.link("v0")
		}, 1},
		{"another life", func(b *bench) {
			b.q.Link(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 6})
			m := vote.Message{
				Kind: vote.KindAnswer, Stream: b.q.peerOf("v0").stream, End: true, Sent: b.q.peerOf("v0").syncSent, Incarnation: 6, Generation: 1, Wall: b.now.Wall,
			}
			b.q.Deliver(b.now, b.place("v0"), vote.SessionID{Node: "v0", Incarnation: 6}, &m)
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 3)
			b.all()
			n := b.ask(RequestOptions{Spec: vote.Spec{Key: "k"}, Value: []byte("one")})
			b.noted("v0", n, 1)
			b.values("v0")
			c.again(b)
			if got := b.values("v0"); len(got) != c.want {
				t.Fatalf("told versions %v", got)
			}
		})
	}
}

func TestAHolderIsToldOnceThatItsKeyIsWanted(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	wanted := func(v vote.NodeID, urge bool) {
		b.sends(v, vote.Message{Kind: vote.KindContended, Number: n, Who: "x", Text: "why", Revoke: urge})
	}
	count := func() (all, urged int) {
		for _, e := range b.events {
			if e.Kind == EventContended {
				all++
				if e.Revoke {
					urged++
				}
			}
		}
		return all, urged
	}
	wanted("v0", false) // the request hasn't won yet
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	for _, v := range b.names {
		wanted(v, false)
	}
	if all, _ := count(); all != 1 {
		t.Fatalf("told %d times", all)
	}
	for range 2 { // twice, by all voters
		for _, v := range b.names {
			wanted(v, true)
		}
	}
	if all, urged := count(); all != 3 || urged != 2 {
		t.Fatalf("told %d times, %d of them to give it back", all, urged)
	}
}

func TestADowngradeIsSynced(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.lock(false)
	if b.q.Downgrade(b.now, n) {
		t.Fatal("what hasn't won is shared")
	}
	b.promise("v0", n, 1, 100)
	b.promise("v1", n, 1, 100)
	b.q.Unlink(b.now, b.place("v2"))
	b.sentTo("v0")
	if !b.q.Downgrade(b.now, n) || b.q.Downgrade(b.now, n) {
		t.Fatal("it isn't shared once")
	}
	if got := b.sentTo("v0"); got != "downgrade" {
		t.Fatalf("v0 was told %q", got)
	}
	b.q.Link(b.now, b.place("v2"), vote.SessionID{Node: "v2", Incarnation: 5})
	b.drain()
	m := b.outbox["v2"]
	if e := m[len(m)-1].Entries; len(e) != 1 || e[0].Mode != vote.Shared || e[0].Token != 100 {
		t.Fatalf("stated %+v", e)
	}
}

func TestUnfitAndClash(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.ask(RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Permit, Permits: 3}})
	unfit := vote.Message{Kind: vote.KindPermitsDiffer, Number: n, Spec: vote.Spec{Permits: 2}}
	b.sends("v0", unfit)
	b.settles("v0", vote.Digest{}, b.q.peerOf("v0").sent)
	if b.last(EventFailed) != nil {
		t.Fatal("one voter is enough")
	}
	b.sends("v1", unfit)
	if e := b.last(EventFailed); e == nil || e.Wait.Reason != WaitUnfit || e.Wait.Text != "3 permits are asked for here, while others use 2; all must agree" {
		t.Fatalf("%+v", e)
	}
	b.sends("v2", unfit) // this message crossed the release
	b.settles("v2", vote.Digest{}, b.q.peerOf("v2").sent)

	n = b.ask(RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Beside: 9}})
	b.sends("v2", vote.Message{Kind: vote.KindClash, Number: n})
	b.sends("v1", vote.Message{Kind: vote.KindClash, Number: n})
	if e := b.last(EventFailed); e == nil || e.Number != n || e.Wait.Reason != WaitClash {
		t.Fatalf("%+v", e)
	}
	b.settles("v0", vote.Digest{}, b.q.peerOf("v0").sent)
}

// Two requests use different numbers of permits, and one of three voters is down. Then each request
// has the vote of a voter, and neither voter votes for the other request in the meantime. So a
// request that a voter turned down for its number of permits must not keep a vote and wait for the
// voter that is down.
func TestUnfitDoesntWaitForAVoterThatIsDown(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.ask(RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Permit, Permits: 3}})
	b.promise("v1", n, 1, 100)
	b.sends("v0", vote.Message{Kind: vote.KindPermitsDiffer, Number: n, Spec: vote.Spec{Permits: 2}})
	if b.last(EventFailed) != nil {
		t.Fatal("v2 may still vote for it")
	}
	b.sentTo("v1")
	b.q.Unlink(b.now, b.place("v2"))
	b.q.DialFailed(b.now, "v2", "connection refused")
	b.drain()
	if e := b.last(EventFailed); e == nil || e.Wait.Reason != WaitUnfit {
		t.Fatalf("%+v", e)
	}
	if got := b.sentTo("v1"); got != "release" {
		t.Fatalf("v1 was told %q", got)
	}

	plain := b.ask(RequestOptions{Spec: vote.Spec{Key: "k"}})
	b.promise("v1", plain, 2, 101)
	b.sends("v0", vote.Message{Kind: vote.KindBusy, Number: plain})
	if e := b.last(EventFailed); e.Number == plain {
		t.Fatal("a voter that is full has room again soon, and such a request waits for it")
	}
}

// Both leases may be over, and each voter may know the end of one lease only. (Found by
// worlds with dynamic membership and lingering messages.)
func TestWordsAboutTwoLeasesDontAddUp(t *testing.T) {
	for _, mode := range []vote.Mode{vote.Exclusive, vote.Shared, vote.Permit} {
		b := newBench(t, 3)
		b.all()
		w := vote.Spec{Key: "k", Mode: mode, Try: true}
		if mode == vote.Permit {
			w.Permits = 2
		}
		n := b.ask(RequestOptions{Spec: w})
		taken := func(v vote.NodeID, by vote.Token, lost bool) {
			b.sends(v, vote.Message{Kind: vote.KindHeld, Number: n, Token: by})
			if got := b.last(EventFailed) != nil; got != lost {
				t.Fatalf("%v: once %s has told of %d it is lost: %v", mode, v, by, got)
			}
		}
		taken("v0", 200, false)
		taken("v1", 100, false)
		taken("v2", 300, false)
		taken("v1", 200, false)
		taken("v0", 300, true)
	}
}
