package node

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// The memory allocated for a lock is kept by its voters for a while; the requester and the node
// reuse their memory.
func TestALockAllocatesAtMostOnceForEachVoter(t *testing.T) {
	if sampled.Raced {
		t.Skip("the race detector allocates for itself")
	}
	for _, voters := range []int{1, 3, 5, 7} {
		l := newLockstep(t, voters, false)
		cycle := func() {
			for range 100 {
				l.cycle("a-key-of-thirty-two-bytes-length")
			}
			l.pass()
		}
		cycle()
		if n := testing.AllocsPerRun(20, cycle) / 100; n > float64(voters)+0.1 {
			t.Errorf("%d voters: %.2f allocations for a lock", voters, n)
		}
	}
}

func TestAHandOverInANodeAllocatesNothing(t *testing.T) {
	if sampled.Raced {
		t.Skip("the race detector allocates for itself")
	}
	l := newLockstep(t, 3, false)
	hand := l.crowd(64)
	hands := func() {
		for range 160 {
			hand()
		}
	}
	hands()
	// Every thirty-second hand-off goes by way of the voters.
	if n := testing.AllocsPerRun(20, hands) / 160; n > 3.0/32+0.1 {
		t.Errorf("%.2f allocations for a hand-over", n)
	}
}
