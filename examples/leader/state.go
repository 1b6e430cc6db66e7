package main

import (
	"reflect"
	"sync"
	"time"
)

// pastMax is how many earlier leaders are remembered.
const pastMax = 20

// state is what a node knows of the election. It is what the page shows, and what /state.json has.
type state struct {
	Election string
	Node     string // whose view this is
	Ready    bool   // enough voters answer and count
	Leader   *reign // nil: nobody leads
	Waiters  []waiter
	Past     []reign // the newest first
}

// reign is one node's time as the leader.
type reign struct {
	Node  string
	Page  string // where that node shows its page; it says so itself
	Token uint64
	Since time.Time
	Until time.Time `json:",omitzero"`
	// Missed says that others may have led before, unseen by this node.
	Missed bool `json:",omitempty"`
}

// waiter is a node that would lead if nobody else did.
type waiter struct {
	Node string
	Page string
}

// board holds the state of one node.
type board struct {
	mu     sync.Mutex
	state  state
	change chan struct{} // closed and replaced at each change
}

func newBoard(election, node string) *board {
	return &board{state: state{Election: election, Node: node}, change: make(chan struct{})}
}

// look returns the state, and a channel that is closed when it is another.
func (b *board) look() (state, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state // whoever changes a list makes a new one
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

// leads notes that somebody leads; or, with the same token, that the leader has another page.
func (s *state) leads(r reign) {
	if s.Leader != nil && s.Leader.Token != r.Token {
		s.nobody(r.Since)
	}
	s.Leader = &r
}

// nobody notes that the leader leads no more.
func (s *state) nobody(from time.Time) {
	if s.Leader == nil {
		return
	}
	past := *s.Leader
	past.Until = from
	s.Past = append([]reign{past}, s.Past[:min(len(s.Past), pastMax-1)]...)
	s.Leader = nil
}
