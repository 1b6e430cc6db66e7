package memnet

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Network connects processes. The methods may be called from any goroutine.
type Network struct {
	latency  time.Duration // of one way
	queueMax int
	messages atomic.Int64 // sent so far

	mu sync.Mutex
	// changed is closed, and replaced, when an awaited condition may have changed.
	changed chan struct{}
	cut     func(from, to string) bool
	// cutAddrs cuts by addresses, to distinguish two nodes of the same name; nil for none.
	cutAddrs func(from, to string) bool
	noGossip bool
	slowness time.Duration // for which gossip still sees a process that was killed
	lastConn vote.Conn
	ports    map[string]*port       // by address: the listening port
	names    map[string]vote.NodeID // by address: the last listening node
	groups   map[vote.NodeID]*group // the newest of each name
	disks    map[string]*disk       // by path
}

// New returns a network with the given latency for each message.
func New(latency time.Duration) *Network {
	return &Network{
		latency: latency, queueMax: queueMax, changed: make(chan struct{}), cut: func(string, string) bool { return false },
		ports: make(map[string]*port), names: make(map[string]vote.NodeID), groups: make(map[vote.NodeID]*group), disks: make(map[string]*disk),
	}
}

// Cut cuts the paths for which cut returns true, and no others, from now on. The function is called
// with two names of nodes again and again, and must always give the same answer.
func (n *Network) Cut(cut func(from, to string) bool) { n.change(func() { n.cut = cut }) }

// CutAddrs cuts further paths, by the addresses at which nodes listen: two nodes may have the same
// name.
func (n *Network) CutAddrs(cut func(from, to string) bool) { n.change(func() { n.cutAddrs = cut }) }

// areCut reports whether messages from one port don't reach another; n.mu is held.
func (n *Network) areCut(from, to *port) bool {
	return n.isCut(from.name(), to.name()) || n.cutAddrs != nil && n.cutAddrs(from.cfg.Bind, to.cfg.Bind)
}

// SilenceGossip keeps nodes that join from now on from hearing of any other node, so the new nodes
// find others only by probing addresses.
func (n *Network) SilenceGossip() { n.change(func() { n.noGossip = true }) }

// SlowGossip has gossip report the death of each process killed from now on after d, as gossip over
// sockets does, and not at once.
func (n *Network) SlowGossip(d time.Duration) { n.change(func() { n.slowness = d }) }

// HangUp breaks all connections of a node, as a restarted router does. Both sides notice at once.
func (n *Network) HangUp(node string) {
	n.change(func() {
		for _, p := range n.ports {
			if string(p.name()) != node {
				continue
			}
			for _, e := range p.ends {
				e.other.hangUp()
				e.hangUp()
			}
		}
	})
}

// Connections returns how many connections were made so far.
func (n *Network) Connections() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return int(n.lastConn) / 2 // each end has a number
}

// Messages returns how many messages were sent so far.
func (n *Network) Messages() int { return int(n.messages.Load()) }

// change calls f with n.mu held, wakes all waiting goroutines, and has gossip report the change.
func (n *Network) change(f func()) {
	n.mu.Lock()
	f()
	close(n.changed)
	n.changed = make(chan struct{})
	all := n.news()
	n.mu.Unlock()
	report(all)
}

// await waits until ok returns true, and then returns true with n.mu held; or until done is closed,
// and then returns false without n.mu. ok is called with n.mu held.
func (n *Network) await(done <-chan struct{}, ok func() bool) bool {
	n.mu.Lock()
	for !ok() {
		changed := n.changed
		n.mu.Unlock()
		select {
		case <-changed:
		case <-done:
			return false
		}
		n.mu.Lock()
	}
	return true
}

// isCut reports whether messages from one node don't reach another; n.mu is held.
func (n *Network) isCut(from, to vote.NodeID) bool {
	return from != to && n.cut(string(from), string(to))
}

// sleep waits for d, or returns false if done is closed before.
func sleep(done <-chan struct{}, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
		return false
	}
}
