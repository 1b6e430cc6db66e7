package sim

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// TestSwarmStrangers runs seeds of a mesh that is born by count beside misconfigured processes,
// which stop only themselves.
func TestSwarmStrangers(t *testing.T) {
	seeds := sampled.Count(6, 60)
	swarm(t, seeds, DrawStrangers, func(f *Figures) {
		n := uint64(seeds)
		if f.Births < n || f.GaveWay < n/5 {
			t.Errorf("%d births, and %d strangers gave way to a mesh: it has shown too little", f.Births, f.GaveWay)
		}
	}, "-strangers")
}
