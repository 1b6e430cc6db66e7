package memnet

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
)

// disk is a state directory in memory. It outlasts the processes that use it.
type disk struct {
	user  *stateDir // who has it open
	state vote.State
	found bool
	peers []string
	fault error         // of each save
	slow  time.Duration // of each save
}

// Wipe empties a state directory, as a machine does that lost its disk. Nobody should have it open.
func (n *Network) Wipe(path string) { n.change(func() { delete(n.disks, path) }) }

// FailDisk has each save to a state directory fail with an error from now on; nil has it work again.
func (n *Network) FailDisk(path string, fault error) { n.change(func() { n.disk(path).fault = fault }) }

// SlowDisk has each save to a state directory take so long from now on.
func (n *Network) SlowDisk(path string, d time.Duration) { n.change(func() { n.disk(path).slow = d }) }

// Stored returns what a state directory holds; false if that is nothing.
func (n *Network) Stored(path string) (vote.State, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.disk(path)
	return d.state, d.found
}

// disk returns the directory of a path; n.mu is held.
func (n *Network) disk(path string) *disk {
	if n.disks[path] == nil {
		n.disks[path] = &disk{}
	}
	return n.disks[path]
}

// stateDir is a directory that a process has open.
type stateDir struct {
	process *Process
	path    string
	disk    *disk
}

// openState opens a directory, as [world.StateDir] wants it.
func (p *Process) openState(path string) (world.StateDir, error) {
	p.lock()
	defer p.net.mu.Unlock()
	d := p.net.disk(path)
	if d.user != nil {
		return nil, fmt.Errorf("%s is in use; stop the other process", path)
	}
	s := &stateDir{process: p, path: path, disk: d}
	d.user = s
	return s, nil
}

func (s *stateDir) Load(mesh string, name vote.NodeID) (vote.State, bool, error) {
	s.process.lock()
	defer s.process.net.mu.Unlock()
	st := s.disk.state
	if s.disk.found && (st.Mesh != mesh || st.Name != name) {
		return vote.State{}, false, fmt.Errorf("%s is of mesh %q, node %q; give each node a directory of its own", s.path, st.Mesh, st.Name)
	}
	return st, s.disk.found, nil
}

func (s *stateDir) Peers() []string {
	s.process.lock()
	defer s.process.net.mu.Unlock()
	return s.disk.peers
}

func (s *stateDir) SavePeers(addrs []string) error {
	s.process.lock()
	defer s.process.net.mu.Unlock()
	if s.disk.fault == nil {
		s.disk.peers = addrs
	}
	return s.disk.fault
}

// errDead is what a process hears that was killed: what it wrote isn't there.
var errDead = errors.New("the process is dead")

func (s *stateDir) Save(st *vote.State) error {
	n := s.process.net
	n.mu.Lock()
	slow := s.disk.slow
	n.mu.Unlock()
	time.Sleep(slow)
	s.process.lock()
	defer n.mu.Unlock()
	switch {
	case s.process.dead:
		return errDead
	case s.disk.fault != nil:
		return s.disk.fault
	}
	s.disk.state, s.disk.found = *st, true
	return nil
}

func (s *stateDir) Close() error {
	s.process.net.change(func() {
		if s.disk.user == s {
			s.disk.user = nil
		}
	})
	return nil
}
