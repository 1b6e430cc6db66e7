package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockmesh/lockmesh"
)

// node is one of the three nodes, with the worker on this node.
type node struct {
	name   string
	mesh   *lockmesh.Mesh
	grants chan<- grant
	logger *slog.Logger
	stop   context.CancelFunc // ends the worker; nil without a worker
	done   chan struct{}      // closed when the worker has ended
}

// grant is a lease just granted to a worker. The worker keeps the lease until advance is closed.
type grant struct {
	node   *node
	lease  *lockmesh.Lease
	at     time.Time
	resume chan struct{}
}

// join starts the node. A program needs no more than this to be part of a mesh.
func (n *node) join(ctx context.Context, peers []string) error {
	mesh, err := lockmesh.Join(ctx, lockmesh.Config{
		Name:   n.name,
		Bind:   "127.0.0.1:0", // loopback, and a port chosen by the system
		Peers:  peers,
		Voters: []string{"a", "b", "c"},
		MaxTTL: maxTTL,
		Logger: n.logger,
	})
	if err == nil {
		n.mesh = mesh
	}
	return err
}

// startWorker starts a goroutine that uses the lock like an application.
func (n *node) startWorker(ctx context.Context) {
	ctx, n.stop = context.WithCancel(ctx)
	n.done = make(chan struct{})
	go func() {
		defer close(n.done)
		for n.workOnce(ctx) {
		}
	}()
}

// workOnce takes the lock, keeps the lock until advance is closed, and reports whether to do so
// again.
func (n *node) workOnce(ctx context.Context) bool {
	lease, err := n.mesh.Lock(ctx, key)
	if err != nil {
		return false // the node was closed, or the story is over
	}
	g := grant{n, lease, time.Now(), make(chan struct{})}
	// Unlock fails only if the node was killed, as the story intends.
	defer func() { _ = lease.Unlock(context.WithoutCancel(ctx)) }()
	select {
	case n.grants <- g:
	case <-ctx.Done():
		return false
	}
	select {
	case <-g.resume:
		return true
	case <-lease.Done(): // lost; if the node was killed, its next Lock says so
		return true
	case <-ctx.Done():
		return false
	}
}

// endWorker ends the worker and waits for its end.
func (n *node) endWorker() {
	if n.stop != nil {
		n.stop()
		<-n.done
		n.stop = nil
	}
}

// kill ends the node like a crash: the other nodes get no message.
func (n *node) kill() error {
	err := n.mesh.Close()
	n.endWorker()
	return err
}

// leave ends the node in good order, which releases its leases at once.
func (n *node) leave() error {
	n.endWorker()
	ctx, cancel := context.WithTimeout(context.Background(), maxTTL)
	defer cancel()
	// ErrClosed means a killed node that didn't return.
	if err := n.mesh.Leave(ctx); !errors.Is(err, lockmesh.ErrClosed) {
		return err
	}
	return nil
}

// addressesFor returns the addresses of the other nodes started so far. A single live address is
// enough to find all nodes.
func (s *demo) addressesFor(n *node) (all []string) {
	for _, other := range s.nodes {
		if other != n {
			all = append(all, other.mesh.Addr())
		}
	}
	return all
}
