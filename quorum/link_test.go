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
		for _, m := range b.outbox[v] {
			if m.Kind == vote.KindNone {
				return true
			}
		}
		return false
	}
	for range 10 { // two TTLs: v0 answers each refresh, v1 and v2 answer none
		b.pass(ttl / 5)
		b.sends("v0", vote.Message{
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

// A watch can't be sent to a voter without a link. The voter is asked once its link is up.
func TestAWatchReachesAVoterWhenItsLinkIsUp(t *testing.T) {
	b := newBench(t, 3)
	b.link("v0")
	b.link("v1")
	b.sentTo("v0")
	b.q.Watch(b.now, "k", false)
	if got := b.sentTo("v0"); got != "watch" {
		t.Fatalf("v0 was told %q", got)
	}
	if got := b.sentTo("v2"); got != "" {
		t.Errorf("v2 has no link, and was told %q", got)
	}
	b.link("v2")
	if got := b.sentTo("v2"); !strings.Contains(got, "watch") {
		t.Errorf("v2 was told %q when its link was up", got)
	}
}
