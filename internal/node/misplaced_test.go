package node

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// permit asks for one of two permits, by a request that tries a slot first.
func (m *mesh) permit(name vote.NodeID, first vote.Slot) vote.Number {
	for {
		n := m.lock(name, "another", false)
		m.release(name, n)
		if vote.Slot(1+vote.Scatter(vote.SessionID{Node: name, Life: m.lives[name]}, n+1)%2) == first {
			return m.ask(name, quorum.Ask{Wish: vote.Wish{Key: "k", Mode: vote.Permit, Permits: 2}})
		}
	}
}

// A voter that heard late that an earlier lease was over may have voted for two leases in each other's slots. They change places there in a while. Otherwise each
// rests on two voters for as long as it lasts, and is lost when one of those dies.
func TestLeasesThatHaveEachOthersSlotsAtAVoterChangePlaces(t *testing.T) {
	m := awake(t, 3)
	early := m.permit("a", 1)
	m.want("a", early, quorum.EventGranted)
	m.pass(ttl)
	m.slow = func(l link) bool { return l == link{"a", "c"} }
	m.release("a", early)
	one := m.permit("b", 1)
	if e := m.want("b", one, quorum.EventGranted); e.Slot != 1 {
		t.Fatalf("slot %d", e.Slot)
	}
	m.arrive()
	two := m.permit("c", 2)
	if e := m.want("c", two, quorum.EventGranted); e.Slot != 2 {
		t.Fatalf("slot %d", e.Slot)
	}
	m.pass(2 * ttl)
	m.stop("a")
	m.pass(3 * ttl)
	m.want("b", one, quorum.EventGranted)
	m.want("c", two, quorum.EventGranted)
}
