package sim

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// TestSwarmMisconfigured runs seeds of a mesh that is born by count beside misconfigured processes,
// which stop only themselves.
func TestSwarmMisconfigured(t *testing.T) {
	seeds := sampled.Count(6, 60)
	swarm(t, seeds, DrawMisconfigured, func(f *Figures) {
		n := uint64(seeds)
		if f.Births < n || f.GaveWay < n/5 {
			t.Errorf("%d births, and %d misconfigured processes gave way to a mesh: it has shown too little", f.Births, f.GaveWay)
		}
	}, "-misconfigured")
}
