package vaultlock_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmesh/lockmesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl      = time.Second
	patience = 30 * time.Second // far above what anything here takes
)

// startMesh starts a mesh of real nodes on loopback, all of them voters, and waits until locks are granted.
func startMesh(t *testing.T, names ...string) []*lockmesh.Mesh {
	t.Helper()
	var nodes []*lockmesh.Mesh
	var peers []string
	for _, name := range names {
		node, err := lockmesh.Join(t.Context(), lockmesh.Config{
			Name: name, Bind: "127.0.0.1:0", Peers: peers, Voters: names, MaxTTL: ttl, Secret: []byte("sixteen or more bytes"),
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = node.Close() })
		nodes, peers = append(nodes, node), append(peers, node.Addr())
	}
	for _, node := range nodes {
		if err := node.Ready(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	return nodes
}

// within returns a context that ends when a test has waited for too long.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
