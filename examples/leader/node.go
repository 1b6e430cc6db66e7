package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh"
)

// election is the name of the election.
const election = "reports/leader"

// statePollInterval is how often a node polls for the standbys, and for whether enough voters
// answer: the end of either comes without an event.
const statePollInterval = time.Second

// node is a node of the service: it leads or is on standby, and shows who leads.
type node struct {
	name  string
	mesh  *lockmesh.Mesh
	board *board
	page  *page

	stop  context.CancelFunc // ends all tasks, and resigns the leadership
	ended chan struct{}      // closed when all tasks have ended
	err   error              // why the node couldn't go on; written before ended is closed
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

// run leads or waits, and keeps the board up to date, until ctx ends.
func (n *node) run(ctx context.Context) error {
	var tasks sync.WaitGroup
	parts := []func(context.Context) error{n.serve, n.follow, n.observeState}
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

// serve leads whenever this node is elected, until ctx ends. The other nodes see the address of its
// page.
func (n *node) serve(ctx context.Context) error {
	return n.mesh.Lead(ctx, election, n.lead, lockmesh.WithValue([]byte(n.page.url())))
}

// lead is the work of the leader. Its context ends with the leadership, and this example just waits
// for the end. A leader that writes somewhere uses Election.Campaign or Mesh.Do instead, for a
// fencing token.
func (n *node) lead(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// follow keeps the leader on the board up to date.
func (n *node) follow(ctx context.Context) error {
	for l, err := range n.mesh.Election(election).Observe(ctx) {
		if err != nil {
			return err
		}
		n.board.update(func(s *state) {
			if l.None {
				s.clearLeader(time.Now())
				return
			}
			s.setLeader(term{Node: l.Node, Page: string(l.Value), Token: l.Token, Since: l.Since, Missed: l.Missed})
		})
	}
	return nil
}

// observeState keeps the standbys on the board up to date, and whether enough voters answer.
func (n *node) observeState(ctx context.Context) error {
	t := time.NewTicker(statePollInterval)
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

// leave ends the node in good order: a leader resigns, so that another node leads at once.
func (n *node) leave() error {
	n.stop()
	<-n.ended
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err := n.mesh.Leave(ctx)
	n.page.close()
	if errors.Is(err, lockmesh.ErrNoQuorum) {
		err = nil // the last nodes to leave have no majority; their leases expire
	}
	return errors.Join(n.err, err)
}

// kill ends the node like a crash: the other nodes get no message.
func (n *node) kill() error {
	err := n.mesh.Close()
	n.page.close()
	n.stop()
	<-n.ended
	return err
}
