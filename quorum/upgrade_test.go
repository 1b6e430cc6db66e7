package quorum

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The voters know a lease that was handed off by its alias, the number of the first request. An
// upgrade that named the caller's own number would wait for the caller's own lease.
func TestAnUpgradeOfALeaseThatWasHandedOffNamesTheLeaseAsVotersKnowIt(t *testing.T) {
	b, first, waits := wonAtOnce(t, 1)
	second := waits[0]
	b.q.Release(b.now, first)
	b.granted(second, true)
	if !b.q.Downgrade(b.now, second) {
		t.Fatal("the lease that was handed off can't be shared")
	}
	b.sentTo("v0")
	b.q.Lock(b.now, RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Exclusive, Beside: second}})
	b.drain()
	m := b.outbox["v0"]
	if len(m) != 1 || m[0].Kind != vote.KindRequest || m[0].Beside != first {
		t.Errorf("v0 was told %+v, want a request beside %d", m, first)
	}
}
