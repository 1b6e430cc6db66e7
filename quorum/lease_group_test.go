package quorum

import (
	"slices"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Leases that end at the same instant are reported in the order of their requests, whatever their
// order in the lease group.
func TestLeasesThatEndTogetherAreReportedInOrder(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	all := b.hold("a", "b", "c", "d")
	b.q.Release(b.now, all[0]) // the last lease of the group takes this index
	b.drain()
	if g := b.q.requests[all[1]].group; len(g.members) != 3 || g.members[0].number == all[1] {
		t.Fatalf("%d leases are in the group, the first of them %d", len(g.members), g.members[0].number)
	}
	b.pass(ttl)
	var lost []vote.Number
	for _, e := range b.events {
		if e.Kind == EventLost {
			lost = append(lost, e.Number)
		}
	}
	if !slices.Equal(lost, all[1:]) {
		t.Errorf("lost %v, want %v", lost, all[1:])
	}
}
