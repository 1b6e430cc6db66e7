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

// service is one of those that are compared, with all of its processes. Its nodes are processes, too.
type service struct {
	name    string // as people are told
	kind    kind
	servers []int // process numbers of what isn't a node
	nodes   []*child.Process
	alone   bool                                                     // it isn't asked for hand-overs, since another entry has these nodes, too
	more    func(ctx context.Context, i int) (*child.Process, error) // starts the ith node; nil if all are there
}

// kind says what a service can be compared with.
type kind int

const (
	limit    kind = iota // what nobody goes below
	ours                 // lockmesh
	majority             // a lock is held by a majority of servers
	single               // there is but one server
)

// node returns the ith node, and starts it if need be.
func (s *service) node(ctx context.Context, i int) (*child.Process, error) {
	for len(s.nodes) <= i {
		if s.more == nil {
			return nil, fmt.Errorf("%s has no node %d", s.name, i)
		}
		p, err := s.more(ctx, len(s.nodes))
		if err != nil {
			return nil, err
		}
		s.nodes = append(s.nodes, p)
	}
	return s.nodes[i], nil
}

// pids are the numbers of all of its processes.
func (s *service) pids() []int {
	pids := append([]int(nil), s.servers...)
	for _, p := range s.nodes {
		pids = append(pids, p.Pid())
	}
	return pids
}

// fleet owns all processes that were started.
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

// own has the fleet end a process that was started elsewhere.
func (f *fleet) own(p *child.Process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.procs = append(f.procs, p)
}

// open starts a process that is a node.
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

// close ends all processes, and returns when they have ended.
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

// freeAddrs returns addresses on loopback at which nobody listens at this moment.
func freeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // only now, so that none comes twice
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// callTime bounds one call that lasts for d by design.
func callTime(d time.Duration) time.Duration { return d + 2*readyTime }
