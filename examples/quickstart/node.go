package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockmesh/lockmesh"
)

// node is one of the three, with the worker that runs on it.
type node struct {
	name   string
	mesh   *lockmesh.Mesh
	grants chan<- grant
	logger *slog.Logger
	stop   context.CancelFunc // ends the worker; nil when there is none
	done   chan struct{}      // closed when the worker has ended
}

// grant is a lease that a worker has just got. The worker keeps it until goOn is closed.
type grant struct {
	node  *node
	lease *lockmesh.Lease
	at    time.Time
	goOn  chan struct{}
}

// join starts the node. It is all that a program has to do to be part of a mesh.
func (n *node) join(ctx context.Context, peers []string) error {
	mesh, err := lockmesh.Join(ctx, lockmesh.Config{
		Name:   n.name,
		Bind:   "127.0.0.1:0", // loopback, and a port that the system chooses
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

// startWorker starts what an application would do with the lock.
func (n *node) startWorker(ctx context.Context) {
	ctx, n.stop = context.WithCancel(ctx)
	n.done = make(chan struct{})
	go func() {
		defer close(n.done)
		for n.workOnce(ctx) {
		}
	}()
}

// workOnce takes the lock, keeps it until it may go on, and reports whether to do so again.
func (n *node) workOnce(ctx context.Context) bool {
	lease, err := n.mesh.Lock(ctx, key)
	if err != nil {
		return false // the node was closed, or the story is over
	}
	g := grant{n, lease, time.Now(), make(chan struct{})}
	defer func() { _ = lease.Unlock(context.WithoutCancel(ctx)) }() // it fails only when the node was killed, as the story wants it
	select {
	case n.grants <- g:
	case <-ctx.Done():
		return false
	}
	select {
	case <-g.goOn:
		return true
	case <-lease.Done(): // lost; if the node was killed, its next Lock says so
		return true
	case <-ctx.Done():
		return false
	}
}

// endWorker ends the worker and waits for it.
func (n *node) endWorker() {
	if n.stop != nil {
		n.stop()
		<-n.done
		n.stop = nil
	}
}

// kill ends the node as a crash would: nobody is told.
func (n *node) kill() error {
	err := n.mesh.Close()
	n.endWorker()
	return err
}

// leave ends the node with a goodbye, which gives its leases back at once.
func (n *node) leave() error {
	n.endWorker()
	ctx, cancel := context.WithTimeout(context.Background(), maxTTL)
	defer cancel()
	if err := n.mesh.Leave(ctx); !errors.Is(err, lockmesh.ErrClosed) { // that is a node which was killed and didn't come back
		return err
	}
	return nil
}

// addressesFor returns where the other nodes listen that have been started. One that is alive is enough to find all.
func (s *story) addressesFor(n *node) (all []string) {
	for _, other := range s.nodes {
		if other != n {
			all = append(all, other.mesh.Addr())
		}
	}
	return all
}
