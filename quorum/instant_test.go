package quorum

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Messages in meshtest take no time, so the answer to a refresh that declares earlier answers void
// arrives in the same instant. A second refresh in this instant would be void as well, its answer
// would cause the next refresh, and time would stand still.
func TestAVoidRefreshIsFollowedInALaterInstant(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	voided := func() bool {
		b.drain()
		for _, m := range b.outbox["v0"] {
			if m.Kind == vote.KindRefresh && m.Void {
				return true
			}
		}
		return false
	}
	for range 4 * vote.RefreshesPerTTL { // v1 and v2 answer, v0 is silent
		if voided() {
			break
		}
		b.pass(b.q.every())
		b.acks("v1", "v2")
	}
	if !voided() {
		t.Fatal("no answer was declared void")
	}
	b.outbox["v0"] = nil
	b.acks("v0")
	b.pass(0)
	if n := b.refreshesOf("v0"); n != 0 {
		t.Fatalf("%d refreshes in the instant in which answers were declared void", n)
	}
	b.pass(1)
	if n := b.refreshesOf("v0"); n != 1 {
		t.Errorf("%d refreshes in the next, want 1", n)
	}
}
