package sim

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// TestSwarmConverting runs seeds in which nodes are converted from a fixed list to dynamic
// membership, in any order.
func TestSwarmConverting(t *testing.T) {
	seeds := sampled.Count(6, 500)
	swarm(t, seeds, DrawFromFixed, func(f *Figures) {
		n := uint64(seeds)
		if f.Stages[StageFixed] < 2*n || f.Stages[StageConverting] < 2*n || f.Stages[StageDynamic] < 2*n || f.FixedPeers < 10*n || f.Changes < n/2 {
			t.Errorf("%v starts by stage, %d links of converting nodes with fixed ones, %d changes of electorates: it has shown too little", f.Stages, f.FixedPeers, f.Changes)
		}
		servingJudged(t, f, seeds)
	}, "-from-fixed")
}
