package lockmesh_test

import (
	"fmt"
	"testing"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/meshservice"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/locktest"
)

// TestAMeshKeepsItsPromisesInABubble has package locktest examine a mesh with nodes that can be cut
// off and voters that can be stopped. internal/sockettest does the same over sockets.
func TestAMeshKeepsItsPromisesInABubble(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	lockmesh.InBubble(t, func(t *testing.T, w *lockmesh.Wire) {
		addr := func(n int) string { return fmt.Sprintf("10.0.0.%d:7950", n) }
		s := &meshservice.Service{Voters: []string{"a", "b", "c"}, Cut: w.Stall, Start: func(name string, n int) (*lockmesh.Mesh, error) {
			return w.Join(name, addr(n), []string{addr(0), addr(1), addr(2)}, []string{"a", "b", "c"})
		}}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		report, err := locktest.Examine(t.Context(), meshservice.Stoppable{Service: s}, locktest.Options{TTL: lockmesh.DefaultMaxTTL, Expect: []locktest.Expected{}})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range report.Mismatches() {
			t.Error(text)
		}
		t.Log(report)
	})
}
