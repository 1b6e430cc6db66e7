package quorum

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// refreshes passes the time until the next refresh, and v1 answers the refresh.
func (b *bench) refreshes() {
	b.pass(ttl/vote.RefreshesPerTTL + time.Millisecond)
	b.ack("v1", nil)
}

// A voter that turns a request down forgets the request, and sends no message when there is room.
// So the voter is asked again; otherwise the request would wait indefinitely for a dead voter,
// while a live voter has room by now.
func TestAVoterThatTurnedARequestDownIsAskedAgain(t *testing.T) {
	permit := RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Permit, Permits: 3}}
	for name, no := range map[string]vote.Message{
		"permits differ": {Kind: vote.KindPermitsDiffer, Spec: vote.Spec{Permits: 2}},
		"busy":           {Kind: vote.KindBusy},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 3)
			b.all()
			n := b.ask(permit)
			b.promise("v1", n, 1, 100)
			no.Number = n
			b.sends("v0", no)
			b.q.Unlink(b.now, b.place("v2"))
			b.sentTo("v0")
			b.refreshes()
			if got := b.sentTo("v0"); got != "refresh request" {
				t.Fatalf("v0 was told %q", got)
			}
			b.sends("v0", no) // not yet
			b.settles("v0", vote.Digest{}, b.q.peerOf("v0").sent)
			b.refreshes()
			b.promise("v0", n, 1, 100)
			b.granted(n, true)
			b.settles("v0", vote.DigestOfRequest(n).Plus(vote.DigestOfVote(1)), b.q.peerOf("v0").sent)
			b.sentTo("v0")
			b.refreshes()
			if got := b.sentTo("v0"); got != "refresh" {
				t.Fatalf("v0, which has taken it in, was told %q", got)
			}
			b.q.Release(b.now, n)
			b.sends("v0", vote.Message{Kind: vote.KindReleased, Number: n})
			b.sends("v1", vote.Message{Kind: vote.KindReleased, Number: n})
			if e := b.last(EventReleased); e == nil || e.Wait.Reason != WaitNone {
				t.Fatalf("%+v", e)
			}
		})
	}
}
