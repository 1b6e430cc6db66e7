package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// TestFault34And35GossipLiesAboutALiveHolder has gossip lie to every node about every voter, again
// and again.
func TestFault34And35GossipLiesAboutALiveHolder(t *testing.T) {
	s := awake(t, Options{Clients: 2})
	held, waits := s.holds("x1", "k"), s.Lock("x2", "k")
	lies := uint64(0)
	for round := range 20 {
		for _, n := range []string{"a", "b", "c", "x1", "x2"} {
			for _, v := range []string{"a", "b", "c"} {
				if n != v {
					lies++
					s.faults.Do(Act{Fault: fault.Gossip, Hosts: []string{n}, Far: []string{v}, For: sceneTTL / 4, Seed: 3*uint64(round) + 1})
				}
			}
		}
		s.stays(held, Granted, sceneTTL/2)
		s.is(waits, Waiting)
	}
	if fired := s.Figures().Fired[fault.Gossip]; fired == 0 {
		t.Errorf("none of %d lies did any harm", lies)
	}
	s.Release(held)
	s.becomes(waits, Granted, sceneTTL)
}

// TestFault47ASlowVoterDelaysNoLock makes the links of one voter of three 150 times as slow as the
// others. The first majority answers, also with a hundred requests waiting at the slow voter.
func TestFault47ASlowVoterDelaysNoLock(t *testing.T) {
	const way = time.Millisecond
	s := awake(t, Options{Clients: 2, Net: Net{Least: way, Most: way, Jitter: -1}})
	for _, n := range []string{"a", "b", "x1", "x2"} {
		s.net.setSlow(s.host(n), s.host("c"), 149*way)
		s.net.setSlow(s.host("c"), s.host(n), 149*way)
	}
	s.Run(sceneTTL)
	for i := range 100 {
		s.becomes(s.Lock("x2", fmt.Sprintf("other %d", i)), Granted, 2*way+100*time.Microsecond)
	}
	for i := range 20 {
		r := s.Lock("x1", "k")
		s.becomes(r, Granted, 2*way+100*time.Microsecond)
		s.Release(r)
		s.becomes(r, Released, 2*way+100*time.Microsecond)
		if i%5 == 0 {
			s.Run(sceneTTL / 4)
		}
	}
}

// TestFault49AFloodOfRequestsLeavesLeasesAlone has one node request hundreds of keys at once, over
// and over, while another node holds a lease.
func TestFault49AFloodOfRequestsLeavesLeasesAlone(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	s := awake(t, Options{Clients: 2})
	held := s.holds("x1", "k")
	for range 3 {
		var flood []*Request
		for i := range 300 {
			flood = append(flood, s.Lock("x2", fmt.Sprintf("flood %d", i)))
		}
		s.stays(held, Granted, sceneTTL)
		for _, r := range flood {
			s.is(r, Granted)
			s.Release(r)
		}
	}
	s.stays(held, Granted, sceneTTL)
}
