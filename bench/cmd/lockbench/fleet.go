package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/bench/internal/child"
	"github.com/lockmesh/lockmesh/bench/internal/peer"
)

// nodesMax is how many nodes contend for a key.
const nodesMax = 4

// service is a service under comparison, with all of its processes. Its nodes are processes, too.
type service struct {
	name      string // for human readers
	kind      kind
	servers   []int // pids of the processes other than nodes
	nodes     []*child.Process
	duplicate bool // another entry has the servers, and measures the cost of held leases
	// startNode starts the ith node; it is nil if all nodes were started.
	startNode func(ctx context.Context, i int) (*child.Process, error)
}

// kind says how a service compares with lockmesh.
type kind int

const (
	limit    kind = iota // the lower bound for any service
	ours                 // lockmesh
	majority             // a majority of servers holds a lock
	single               // there is only a single server
)

// node returns the ith node, and starts the node if necessary.
func (s *service) node(ctx context.Context, i int) (*child.Process, error) {
	for len(s.nodes) <= i {
		if s.startNode == nil {
			return nil, fmt.Errorf("%s has no node %d", s.name, i)
		}
		p, err := s.startNode(ctx, len(s.nodes))
		if err != nil {
			return nil, err
		}
		s.nodes = append(s.nodes, p)
	}
	return s.nodes[i], nil
}

// pids returns the ids of all processes of the service.
func (s *service) pids() []int {
	pids := append([]int(nil), s.servers...)
	for _, p := range s.nodes {
		pids = append(pids, p.Pid())
	}
	return pids
}

// fleet owns all started processes.
type fleet struct {
	mu    sync.Mutex
	procs []*child.Process
}

// start starts a process, which the fleet will end.
func (f *fleet) start(name string) (*child.Process, error) {
	p, err := child.Start(name)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.procs = append(f.procs, p)
	return p, nil
}

// track makes the fleet end a process that was started elsewhere.
func (f *fleet) track(p *child.Process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.procs = append(f.procs, p)
}

// open starts a process with a node.
func (f *fleet) open(ctx context.Context, name string, s peer.Spec) (p *child.Process, addr string, err error) {
	if p, err = f.start(name); err != nil {
		return nil, "", err
	}
	var o opened
	ctx, cancel := context.WithTimeout(ctx, 2*readyTime)
	defer cancel()
	err = p.Call(ctx, "open", s, &o)
	return p, o.Addr, err
}

// close ends all processes, and waits for their end.
func (f *fleet) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ending sync.WaitGroup
	for _, p := range f.procs {
		ending.Go(func() { _ = p.Close() })
	}
	ending.Wait()
	f.procs = nil
}

// freeAddrs returns loopback addresses without a listener at this moment.
func freeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // only after the loop, so that no address comes twice
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// callTime bounds a call that lasts for d by design.
func callTime(d time.Duration) time.Duration { return d + 2*readyTime }
