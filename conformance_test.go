package lockmesh_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/locktest"
)

// These tests run meshes through the examination that is meant for every lock service: over sockets in real time, and in a bubble where nodes
// can be cut off.

// TestAMeshKeepsItsPromisesOverSockets leaves out the promises for which a client crashes, leaves or
// is cut off, or a lock outlives its TTL: those wait for TTLs, which are long here, so that no lock is
// lost on a busy machine. In the bubble and in the hunt all promises are examined.
func TestAMeshKeepsItsPromisesOverSockets(t *testing.T) {
	sampled.Waits(t)
	t.Parallel()
	var prompt []string
	for _, p := range locktest.Promises() {
		waits := slices.ContainsFunc(p.Needs, func(c locktest.Capability) bool {
			return c == locktest.HasCrash || c == locktest.HasLeave || c == locktest.HasCut
		})
		if !waits && p.Name != "outlives-ttl" && p.Name != "deadline" {
			prompt = append(prompt, p.Name)
		}
	}
	s := overSockets(t, 10*time.Second)
	defer s.close(t)
	// On a busy machine a node that joins has waited for longer than the default of 20 s.
	locktest.Run(t, s, locktest.Options{
		TTL: 10 * time.Second, Timeout: 2 * time.Minute,
		Handovers: 80, Keys: 400, Ops: 800, Only: prompt, Expect: []locktest.Expected{},
	})
}

// overSockets is a mesh on loopback.
func overSockets(t *testing.T, maxTTL time.Duration) *meshService {
	var peers []string
	return &meshService{voters: []string{"a", "b", "c"}, start: func(name string, _ int) (*lockmesh.Mesh, error) {
		m, err := lockmesh.Join(t.Context(), lockmesh.Config{
			Name: name, Bind: "127.0.0.1:0", Peers: slices.Clone(peers), Voters: []string{"a", "b", "c"}, MaxTTL: maxTTL,
			Secret: []byte("correct horse battery staple"), Logger: slog.New(slog.DiscardHandler),
		})
		if err == nil {
			peers = append(peers, m.Addr())
		}
		return m, err
	}}
}

func TestAMeshKeepsItsPromisesInABubble(t *testing.T) {
	lockmesh.InBubble(t, func(t *testing.T, w *lockmesh.Wire) {
		addr := func(n int) string { return fmt.Sprintf("10.0.0.%d:7950", n) }
		s := &meshService{voters: []string{"a", "b", "c"}, cut: w.Stall, start: func(name string, n int) (*lockmesh.Mesh, error) {
			return w.Join(name, addr(n), []string{addr(0), addr(1), addr(2)}, []string{"a", "b", "c"})
		}}
		defer s.close(t)
		report, err := locktest.Examine(t.Context(), s, locktest.Options{TTL: lockmesh.DefaultMaxTTL, Expect: []locktest.Expected{}})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range report.Mismatches() {
			t.Error(text)
		}
		t.Log(report)
	})
}

// meshService is a mesh whose voters are the first clients, so that those crash and restart, too; the others are guests.
type meshService struct {
	voters []string
	// start starts the n-th node; a voter that is started again has the number that it had.
	start func(name string, n int) (*lockmesh.Mesh, error)
	cut   func(m *lockmesh.Mesh, on bool) // nil if nobody can be

	mu    sync.Mutex
	nodes []*meshNode // voters first
}

// meshNode is a node and its later lives. The service's mutex guards it.
type meshNode struct {
	mesh  *lockmesh.Mesh
	taken bool // by a client
}

func (s *meshService) Client(ctx context.Context) (locktest.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.nodes); n < len(s.voters); n++ {
		if err := s.join(n, s.voters[n]); err != nil {
			return nil, err
		}
	}
	n := slices.IndexFunc(s.nodes, func(n *meshNode) bool { return n.mesh != nil && !n.taken })
	if n < 0 {
		n = len(s.nodes)
		if err := s.join(n, fmt.Sprintf("guest-%d", n)); err != nil {
			return nil, err
		}
	}
	node := s.nodes[n]
	node.taken = true
	c := &meshClient{s: s, node: node, mesh: node.mesh, number: n}
	if err := node.mesh.Ready(ctx); err != nil {
		return nil, fmt.Errorf("%w\n%v", err, node.mesh.Status())
	}
	if s.cut != nil {
		return &cutClient{c}, nil
	}
	return c, nil
}

// join starts the n-th node; mu is held.
func (s *meshService) join(n int, name string) error {
	m, err := s.start(name, n)
	if err != nil {
		return err
	}
	if n == len(s.nodes) {
		s.nodes = append(s.nodes, &meshNode{})
	}
	*s.nodes[n] = meshNode{mesh: m}
	return nil
}

func (s *meshService) IsHeld(err error) bool { return errors.Is(err, lockmesh.ErrHeld) }

// Waiting counts requests where they are made. Their place is by the time at which they were, so whoever comes later is behind them.
func (s *meshService) Waiting(_ context.Context, key string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := 0
	for _, n := range s.nodes {
		if n.mesh != nil {
			for _, w := range n.mesh.Status().Waiting {
				if w.Key == key {
					waiting++
				}
			}
		}
	}
	return waiting, nil
}

// whole waits until every voter counts, for every node: only then may one of them end.
func (s *meshService) whole() error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		s.mu.Lock()
		var missing string
		for _, n := range s.nodes {
			if n.mesh != nil {
				if status := n.mesh.Status(); status.Electorate.Counting < len(s.voters) {
					missing = status.String()
				}
			}
		}
		s.mu.Unlock()
		if missing == "" {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the voters never came back: %s", missing)
		}
	}
}

func (s *meshService) close(t *testing.T) {
	for _, n := range s.nodes {
		if n.mesh != nil {
			if err := n.mesh.Close(); err != nil {
				t.Errorf("closing %s: %v", n.mesh.Name(), err)
			}
		}
	}
}

// meshClient is a node that the examination uses.
type meshClient struct {
	s      *meshService
	node   *meshNode
	mesh   *lockmesh.Mesh
	number int
	over   bool
}

// lease is what a mesh has answered. A lease has all that a lock may offer.
func lease(l *lockmesh.Lease, err error) (locktest.Lock, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (c *meshClient) Lock(ctx context.Context, key string) (locktest.Lock, error) {
	return lease(c.mesh.Lock(ctx, key))
}

func (c *meshClient) TryLock(ctx context.Context, key string) (locktest.Lock, error) {
	return lease(c.mesh.TryLock(ctx, key))
}

func (c *meshClient) Crash() error { return c.end(c.mesh.Close) }

func (c *meshClient) Leave(ctx context.Context) error {
	return c.end(func() error { return c.mesh.Leave(ctx) })
}

// end ends the node. A voter is started again at once.
func (c *meshClient) end(by func() error) error {
	c.over = true
	if err := c.s.whole(); err != nil {
		return err
	}
	if err := by(); err != nil {
		return err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.node.mesh = nil
	if c.number < len(c.s.voters) {
		return c.s.join(c.number, c.s.voters[c.number])
	}
	return nil
}

// Close gives the node back. It may be that of the next client.
func (c *meshClient) Close() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !c.over {
		c.node.taken = false
	}
	return nil
}

// cutClient is a node that can be cut off.
type cutClient struct{ *meshClient }

func (c *cutClient) Cut() (func(), error) {
	if err := c.s.whole(); err != nil {
		return nil, err
	}
	c.s.cut(c.mesh, true)
	return func() { c.s.cut(c.mesh, false) }, nil
}
