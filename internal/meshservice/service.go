package meshservice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/locktest"
)

// Service is a mesh for package locktest. The voters are the first clients, so they crash and
// restart as well; all later clients are guests.
type Service struct {
	Voters []string
	// Start starts the n-th node, counted from 0. A voter started again has the same number.
	Start func(name string, n int) (*lockmesh.Mesh, error)
	// Cut cuts a node off from all others, or ends this; nil if the network can't.
	Cut func(m *lockmesh.Mesh, on bool)

	mu    sync.Mutex
	nodes []*node // voters first
}

// node is a node in one incarnation after the other. The service's mutex guards the fields.
type node struct {
	mesh  *lockmesh.Mesh
	taken bool // by a client
}

// Client returns the next node as a client, once the node is ready.
func (s *Service) Client(ctx context.Context) (locktest.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.nodes); n < len(s.Voters); n++ {
		if err := s.join(n, s.Voters[n]); err != nil {
			return nil, err
		}
	}
	n := slices.IndexFunc(s.nodes, func(n *node) bool { return n.mesh != nil && !n.taken })
	if n < 0 {
		n = len(s.nodes)
		if err := s.join(n, fmt.Sprintf("guest-%d", n)); err != nil {
			return nil, err
		}
	}
	node := s.nodes[n]
	node.taken = true
	c := &client{s: s, node: node, mesh: node.mesh, number: n}
	if err := node.mesh.Ready(ctx); err != nil {
		return nil, fmt.Errorf("%w\n%v", err, node.mesh.Status())
	}
	if s.Cut != nil {
		return &cutClient{c}, nil
	}
	return c, nil
}

// join starts the n-th node; mu is held.
func (s *Service) join(n int, name string) error {
	m, err := s.Start(name, n)
	if err != nil {
		return err
	}
	if n == len(s.nodes) {
		s.nodes = append(s.nodes, &node{})
	}
	*s.nodes[n] = node{mesh: m}
	return nil
}

// IsHeld reports whether an error means a held key.
func (s *Service) IsHeld(err error) bool { return errors.Is(err, lockmesh.ErrHeld) }

// Waiting counts the requests known to have reached a majority of the voters. The place of a
// request is by the time of its call, and voters that know the request serve the request before
// each later request. Fewer voters aren't enough: a later request that has overtaken the request on
// the way to the other voters would win.
func (s *Service) Waiting(_ context.Context, key string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := 0
	for _, n := range s.nodes {
		if n.mesh != nil {
			for _, w := range n.mesh.Status().Waiting {
				if w.Key == key && strings.HasPrefix(w.Text, queued) {
					waiting++
				}
			}
		}
	}
	return waiting, nil
}

// queued begins the text of a request with answers from a majority of the voters.
var queued = strings.TrimPrefix(lockmesh.ErrHeld.Error(), "lockmesh: ")

// whole waits until every voter counts at every node: only then may a node end.
func (s *Service) whole() error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		s.mu.Lock()
		var missing string
		for _, n := range s.nodes {
			if n.mesh != nil {
				if status := n.mesh.Status(); status.Electorate.Counting < len(s.Voters) {
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

// Close closes all nodes.
func (s *Service) Close() (err error) {
	for _, n := range s.nodes {
		if n.mesh != nil {
			err = errors.Join(err, n.mesh.Close())
		}
	}
	return err
}

// client is a node used by locktest.
type client struct {
	s      *Service
	node   *node
	mesh   *lockmesh.Mesh
	number int
	over   bool
}

// lease is the result of a call of a mesh. A lease has every optional method of a lock.
func lease(l *lockmesh.Lease, err error) (locktest.Lock, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (c *client) Lock(ctx context.Context, key string) (locktest.Lock, error) {
	return lease(c.mesh.Lock(ctx, key))
}

func (c *client) TryLock(ctx context.Context, key string) (locktest.Lock, error) {
	return lease(c.mesh.TryLock(ctx, key))
}

func (c *client) Crash() error { return c.end(c.mesh.Close) }

func (c *client) Leave(ctx context.Context) error {
	return c.end(func() error { return c.mesh.Leave(ctx) })
}

// end ends the node, and starts a voter again at once.
func (c *client) end(by func() error) error {
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
	if c.number < len(c.s.Voters) {
		return c.s.join(c.number, c.s.Voters[c.number])
	}
	return nil
}

// Close gives the node back; the next client may get the node.
func (c *client) Close() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !c.over {
		c.node.taken = false
	}
	return nil
}

// cutClient is a node with a way to cut the node off.
type cutClient struct{ *client }

func (c *cutClient) Cut() (func(), error) {
	if err := c.s.whole(); err != nil {
		return nil, err
	}
	c.s.Cut(c.mesh, true)
	return func() { c.s.Cut(c.mesh, false) }, nil
}

// Stoppable is a mesh whose voters can be stopped, as SIGSTOP does: no message passes to or from a
// stopped voter. Its Cut must not be nil.
type Stoppable struct{ *Service }

// StopMajority stops the smallest majority of the voters. The node of the spared client runs on.
func (s Stoppable) StopMajority(spared locktest.Client) (func(), error) {
	c, ok := spared.(*cutClient)
	if !ok {
		return nil, fmt.Errorf("meshservice: a client of another service is to be spared: %T", spared)
	}
	if err := s.whole(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var stopped []*lockmesh.Mesh
	for _, n := range s.nodes[:len(s.Voters)] {
		if n != c.node && len(stopped) <= len(s.Voters)/2 {
			stopped = append(stopped, n.mesh)
		}
	}
	for _, m := range stopped {
		s.Cut(m, true)
	}
	return func() {
		for _, m := range stopped {
			s.Cut(m, false)
		}
	}, nil
}

var _ locktest.Stopper = Stoppable{}
