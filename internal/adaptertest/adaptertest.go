// Package adaptertest has what several tests of adapters and servers need: meshes, a listener in
// memory, and waits.
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

// Eventually waits until a condition holds; the test fails if it doesn't within Patience.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx := Within(t)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("never came: %s", what)
		}
	}
}
