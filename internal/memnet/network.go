// Package memnet is a network in memory, with the processes on it, for whole meshes in one test. Processes crash and are stopped, ways
// between them are cut, and each has a clock that can be set. All time is that of package time, so in a bubble of testing/synctest
// it is simulated: whatever waits here waits durably, and each goroutine is of the bubble that started it.
//
// Messages pass through the codec of package transport, and the network behaves as TCP does: what was sent over a connection arrives
// in order and whole; while a way is cut it waits, and so do those who dial.
package memnet

import (
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Network is what lies between processes. Its methods may be called from any goroutine.
type Network struct {
	latency  time.Duration // of one way
	queueMax int

	mu       sync.Mutex
	changed  chan struct{} // closed, and replaced, when something has changed that others may wait for
	cut      func(from, to string) bool
	noGossip bool
	lastConn vote.Conn
	ports    map[string]*port       // by address: who listens
	names    map[string]vote.NodeID // by address: who listened last
	groups   map[vote.NodeID]*group // the newest of each name
	disks    map[string]*disk       // by path
}

// New returns a network on which each message travels for as long.
func New(latency time.Duration) *Network {
	return &Network{
		latency: latency, queueMax: queueMax, changed: make(chan struct{}), cut: func(string, string) bool { return false },
		ports: make(map[string]*port), names: make(map[string]vote.NodeID), groups: make(map[vote.NodeID]*group), disks: make(map[string]*disk),
	}
}

// Cut cuts the ways for which cut returns true, and no others, from now on. It is asked for two names of nodes again and again, and
// must always give the same answer.
func (n *Network) Cut(cut func(from, to string) bool) { n.change(func() { n.cut = cut }) }

// SilenceGossip keeps nodes that join from now on from hearing of anybody, so that they only find whom they greet.
func (n *Network) SilenceGossip() { n.change(func() { n.noGossip = true }) }

// HangUp breaks all connections of a node, as a router that has restarted does. Both sides see it at once.
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

// change does something and wakes whoever waits for it.
func (n *Network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.changed)
	n.changed = make(chan struct{})
}

// await waits until ok returns true, and then returns true with n.mu held; or until done is closed, and then returns false, without it.
// ok is called with n.mu held.
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

// isCut reports whether what one node sends doesn't reach another; n.mu is held.
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
