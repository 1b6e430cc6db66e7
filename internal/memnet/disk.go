package memnet

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
)

// disk is a state directory in memory. The disk outlives the processes that use it.
type disk struct {
	user  *stateDir // the open directory, if there is one
	state vote.DiskState
	found bool
	peers []string
	fault error         // the error of each save
	slow  time.Duration // the duration of each save
	hung  bool          // the disk neither answers nor fails
}

// Wipe empties a state directory, as when a machine loses its disk. No process should have the
// directory open.
func (n *Network) Wipe(path string) { n.change(func() { delete(n.disks, path) }) }

// FailDisk makes each save to a state directory fail with an error from now on; nil restores the
// disk.
func (n *Network) FailDisk(path string, fault error) { n.change(func() { n.disk(path).fault = fault }) }

// SlowDisk makes each save to a state directory take this long from now on.
func (n *Network) SlowDisk(path string, d time.Duration) { n.change(func() { n.disk(path).slow = d }) }

// HangDisk makes a state directory stop answering, as a frozen file system does, or answer again. A
// caller that waits for the disk waits until then, even if its process is killed: such a wait can't
// be cut short.
func (n *Network) HangDisk(path string, hung bool) { n.change(func() { n.disk(path).hung = hung }) }

// Stored returns the state in a state directory; false if there is none.
func (n *Network) Stored(path string) (vote.DiskState, bool) {
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

// stateDir is a directory opened by a process.
type stateDir struct {
	process *Process
	path    string
	disk    *disk
}

// openState opens a directory, for [world.World.State].
func (p *Process) openState(path string) (world.StateDir, error) {
	p.net.await(nil, func() bool { return !p.paused && !p.net.disk(path).hung })
	defer p.net.mu.Unlock()
	d := p.net.disk(path)
	if d.user != nil {
		return nil, fmt.Errorf("%s is in use; stop the other process", path)
	}
	s := &stateDir{process: p, path: path, disk: d}
	d.user = s
	return s, nil
}

func (s *stateDir) Load(mesh string, name vote.NodeID) (vote.DiskState, bool, error) {
	s.lock()
	defer s.process.net.mu.Unlock()
	st := s.disk.state
	if s.disk.found && (st.Mesh != mesh || st.Name != name) {
		return vote.DiskState{}, false, fmt.Errorf("%s is of mesh %q, node %q; give each node a directory of its own", s.path, st.Mesh, st.Name)
	}
	return st, s.disk.found, nil
}

func (s *stateDir) Peers() []string {
	s.lock()
	defer s.process.net.mu.Unlock()
	return s.disk.peers
}

func (s *stateDir) SavePeers(addrs []string) error {
	s.lock()
	defer s.process.net.mu.Unlock()
	if s.disk.fault == nil {
		s.disk.peers = addrs
	}
	return s.disk.fault
}

// Warnings returns nothing: there is nothing to fix in memory.
func (s *stateDir) Warnings() []string { return nil }

// lock waits while the process is paused or the disk hangs, and returns with the network's lock
// held.
func (s *stateDir) lock() {
	s.process.net.await(nil, func() bool { return !s.process.paused && !s.disk.hung })
}

// errDead is the error of a save by a killed process: the state isn't stored.
var errDead = errors.New("the process is dead")

func (s *stateDir) Save(st *vote.DiskState) error {
	n := s.process.net
	n.mu.Lock()
	slow := s.disk.slow
	n.mu.Unlock()
	time.Sleep(slow)
	s.lock()
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
	s.process.net.await(nil, func() bool { return !s.disk.hung })
	s.process.net.mu.Unlock()
	s.process.net.change(func() {
		if s.disk.user == s {
			s.disk.user = nil
		}
	})
	return nil
}
