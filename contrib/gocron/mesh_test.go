package gocronlock_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/meshtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl      = time.Second
	patience = 30 * time.Second // far above the duration of any test here
)

// startMesh starts a mesh in memory, all nodes voters, and waits until locks are granted. Time is
// real, since the other program's time is.
func startMesh(t *testing.T, names ...string) []*lockmesh.Mesh {
	t.Helper()
	m := meshtest.New(t, len(names), meshtest.Names(names...), meshtest.MaxTTL(ttl))
	m.Ready()
	return m.Nodes()
}

// within returns a context that ends when a test has waited for too long.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
