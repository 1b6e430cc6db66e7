// Package adaptertest starts the meshes for tests of the adapters in contrib.
package adaptertest

import (
	"context"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

const (
	// TTL is the maximum TTL of the meshes. Time is real, since the adapted program's time is.
	TTL = time.Second
	// Patience is far above the duration of any test of an adapter.
	Patience = 30 * time.Second
)

// Start starts a mesh in memory, all nodes voters, and waits until locks are granted.
func Start(t *testing.T, names ...string) []*lockmesh.Mesh {
	t.Helper()
	m := meshtest.New(t, len(names), meshtest.Names(names...), meshtest.MaxTTL(TTL))
	m.Ready()
	return m.Nodes()
}

// Within returns a context that ends when a test has waited for Patience.
func Within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}
