package main

import (
	"reflect"
	"sync"
	"time"
)

// maxPast is how many earlier leaders are remembered.
const maxPast = 20

// state is a node's knowledge of the election, as shown on the page and in /state.json.
type state struct {
	Election string
	Node     string // the owner of this view
	Ready    bool   // enough voters answer and count
	Leader   *term  // nil: there is no leader
	Waiters  []waiter
	Past     []term // the newest first
}

// term is a node's time as the leader.
type term struct {
	Node  string
	Page  string // the address of the node's page, as sent by the node
	Token uint64
	Since time.Time
	Until time.Time `json:",omitzero"`
	// Missed says that others may have led before, unseen by this node.
	Missed bool `json:",omitempty"`
}

// waiter is a standby node.
type waiter struct {
	Node string
	Page string
}

// board holds the state of a node.
type board struct {
	mu     sync.Mutex
	state  state
	change chan struct{} // closed and replaced at each change
}

func newBoard(election, node string) *board {
	return &board{state: state{Election: election, Node: node}, change: make(chan struct{})}
}

// snapshot returns the state, and a channel that is closed on the next change.
func (b *board) snapshot() (state, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state // lists are replaced, never changed
	return s, b.change
}

// update changes the state.
func (b *board) update(f func(*state)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.state
	f(&b.state)
	if reflect.DeepEqual(before, b.state) {
		return
	}
	close(b.change)
	b.change = make(chan struct{})
}

// setLeader records a leader; or, with the same token, another page of the leader.
func (s *state) setLeader(r term) {
	if s.Leader != nil && s.Leader.Token != r.Token {
		s.clearLeader(r.Since)
	}
	s.Leader = &r
}

// clearLeader records that the leader has stopped leading.
func (s *state) clearLeader(from time.Time) {
	if s.Leader == nil {
		return
	}
	past := *s.Leader
	past.Until = from
	s.Past = append([]term{past}, s.Past[:min(len(s.Past), maxPast-1)]...)
	s.Leader = nil
}
