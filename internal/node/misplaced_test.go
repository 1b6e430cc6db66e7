package node

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// permit requests a permit, by a request that tries the given slot first.
func (m *mesh) permit(name vote.NodeID, permits uint16, first vote.Slot) vote.Number {
	for {
		n := m.lock(name, "another", false)
		m.release(name, n)
		if vote.Slot(1+vote.Scatter(vote.SessionID{Node: name, Incarnation: m.incarnations[name]}, n+1)%uint64(permits)) == first {
			return m.ask(name, quorum.RequestOptions{Spec: vote.Spec{Key: "k", Mode: vote.Permit, Permits: permits}})
		}
	}
}

// A voter that learned late of the end of an earlier lease may have voted for two leases in each
// other's slots. After a while the two leases change places at this voter. Otherwise each lease
// would rest on two voters for its whole length, and be lost when one of the two dies.
func TestLeasesThatHaveEachOthersSlotsAtAVoterChangePlaces(t *testing.T) {
	m := awake(t, 3)
	early := m.permit("a", 2, 1)
	m.want("a", early, quorum.EventGranted)
	m.pass(ttl)
	m.slow = func(l link) bool { return l == link{"a", "c"} }
	m.release("a", early)
	one := m.permit("b", 2, 1)
	if e := m.want("b", one, quorum.EventGranted); e.Slot != 1 {
		t.Fatalf("slot %d", e.Slot)
	}
	m.arrive()
	two := m.permit("c", 2, 2)
	if e := m.want("c", two, quorum.EventGranted); e.Slot != 2 {
		t.Fatalf("slot %d", e.Slot)
	}
	m.pass(2 * ttl)
	m.stop("a")
	m.pass(3 * ttl)
	m.want("b", one, quorum.EventGranted)
	m.want("c", two, quorum.EventGranted)
}

// Each of three leases may have the votes of two voters, since its node can't reach the third. Then
// each voter can give another slot besides the slot free everywhere, and none of these other slots
// can win. A request finds the slot that can.
func TestASlotThatIsFreeEverywhereIsFound(t *testing.T) {
	for first := vote.Slot(1); first <= 4; first++ {
		m := awake(t, 3)
		m.cut(func(l link) bool { return l == link{"a", "c"} || l == link{"b", "a"} || l == link{"c", "b"} })
		m.run()
		for i, name := range m.voters {
			n := m.permit(name, 4, vote.Slot(i+1))
			if e := m.want(name, n, quorum.EventGranted); e.Slot != vote.Slot(i+1) {
				t.Fatalf("%s has slot %d", name, e.Slot)
			}
		}
		m.names = append(m.names, "d")
		m.start("d")
		n := m.permit("d", 4, first)
		m.pass(2 * ttl)
		if e := m.want("d", n, quorum.EventGranted); e.Slot != 4 {
			t.Fatalf("slot %d", e.Slot)
		}
	}
}
