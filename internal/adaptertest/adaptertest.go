// Package adaptertest has meshes for the tests of adapters.
package adaptertest

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

// TTL is the maximum TTL of the meshes. Time is real, since the adapted program's time is.
const TTL = time.Second

// Start starts a mesh in memory, all nodes voters, and waits until locks are granted.
func Start(t *testing.T, names ...string) []*lockmesh.Mesh {
	t.Helper()
	m := meshtest.New(t, len(names), meshtest.WithNames(names...), meshtest.WithMaxTTL(TTL))
	m.Ready()
	return m.Nodes()
}
