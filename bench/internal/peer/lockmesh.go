package peer

import (
	"context"
	"log/slog"
	"os"

	"github.com/lockmesh/lockmesh"
)

// Mesh is a node of lockmesh.
type Mesh struct{ *lockmesh.Mesh }

func openLockmesh(_ context.Context, s Spec) (Node, error) {
	m, err := JoinLockmesh(s)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// JoinLockmesh joins as Open does, without waiting until locks can be had. See
// [lockmesh.Mesh.Ready].
func JoinLockmesh(s Spec) (*Mesh, error) {
	m, err := lockmesh.Join(context.Background(), lockmesh.Config{
		Name: s.Name, Bind: "127.0.0.1:0", Peers: s.Peers, Voters: s.Voters, Secret: []byte(s.Secret), MaxTTL: s.MaxTTL,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return nil, err
	}
	return &Mesh{m}, nil
}

// Lock acquires a lock of the mesh.
func (m *Mesh) Lock(ctx context.Context, key string) (Unlock, uint64, error) {
	lease, err := m.Mesh.Lock(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	return lease.Unlock, lease.Token(), nil
}

// Close leaves the mesh in good order.
func (m *Mesh) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), TTL)
	defer cancel()
	return m.Leave(ctx)
}
