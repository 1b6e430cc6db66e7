package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh"
)

// election is the name of the office.
const election = "reports/leader"

// glance is how often a node looks who stands by, and whether enough voters answer. Of neither there are events when it ends.
const glance = time.Second

// node is one node of the service: it leads or stands by, and shows who leads.
type node struct {
	name  string
	mesh  *lockmesh.Mesh
	board *board
	page  *page

	stop  context.CancelFunc // ends all that runs, and gives the office back
	ended chan struct{}      // closed when all has ended
	err   error              // why it couldn't go on; written before ended is closed
}

// open starts a node and its page.
func open(ctx context.Context, cfg lockmesh.Config, addr string) (*node, error) {
	mesh, err := lockmesh.Join(ctx, cfg)
	if err != nil {
		return nil, err
	}
	n := &node{name: mesh.Name(), mesh: mesh, board: newBoard(election, mesh.Name()), ended: make(chan struct{})}
	if n.page, err = openPage(addr, n.board); err != nil {
		return nil, errors.Join(err, mesh.Close())
	}
	ctx, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(n.ended)
		n.err = n.run(ctx)
	}()
	return n, nil
}

// run leads or stands by, and keeps the board up to date, until ctx ends.
func (n *node) run(ctx context.Context) error {
	var tasks sync.WaitGroup
	parts := []func(context.Context) error{n.serve, n.follow, n.look}
	errs := make([]error, len(parts))
	for i, part := range parts {
		tasks.Go(func() {
			if err := part(ctx); ctx.Err() == nil {
				errs[i] = err
				n.stop() // no part goes on without the others
			}
		})
	}
	tasks.Wait()
	return errors.Join(errs...)
}

// serve leads whenever this node's turn comes, until ctx ends. The others see the address of its page.
func (n *node) serve(ctx context.Context) error {
	for ctx.Err() == nil {
		err := n.mesh.Lead(ctx, election, n.lead, lockmesh.WithValue([]byte(n.page.url())))
		if err != nil && !errors.Is(err, lockmesh.ErrLost) {
			return err
		}
	}
	return nil
}

// lead is what only the leader does. Its context ends when the leadership does, and here it has nothing else to do than to wait for that. One that writes
// somewhere takes part by Election.Campaign or Do, which give it a token to write by.
func (n *node) lead(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// follow keeps the board up to date on who leads.
func (n *node) follow(ctx context.Context) error {
	for l, err := range n.mesh.Election(election).Observe(ctx) {
		if err != nil {
			return err
		}
		n.board.update(func(s *state) {
			if l.None {
				s.nobody(time.Now())
				return
			}
			s.leads(reign{Node: l.Node, Page: string(l.Value), Token: l.Token, Since: l.Since, Missed: l.Missed})
		})
	}
	return nil
}

// look keeps the board up to date on who stands by, and on whether enough voters answer.
func (n *node) look(ctx context.Context) error {
	t := time.NewTicker(glance)
	defer t.Stop()
	for {
		ready := n.mesh.Status().Electorate.Ready
		info, err := n.mesh.Inspect(ctx, election)
		if err != nil && !errors.Is(err, lockmesh.ErrNoQuorum) {
			return err
		}
		var waiters []waiter
		for _, w := range info.Waiters {
			waiters = append(waiters, waiter{w.Node, string(w.Value)})
		}
		n.board.update(func(s *state) { s.Ready, s.Waiters = ready, waiters })
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// leave ends the node with a goodbye: it resigns if it leads, so that another leads at once.
func (n *node) leave() error {
	n.stop()
	<-n.ended
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTime)
	defer cancel()
	err := n.mesh.Leave(ctx)
	n.page.close()
	if errors.Is(err, lockmesh.ErrNoQuorum) {
		err = nil // it is one of the last to go; what it held ends by time
	}
	return errors.Join(n.err, err)
}

// kill ends the node as a crash would: nobody is told.
func (n *node) kill() error {
	err := n.mesh.Close()
	n.page.close()
	n.stop()
	<-n.ended
	return err
}
