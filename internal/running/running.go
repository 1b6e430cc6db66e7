// Package running has the functions that a node runs while it holds a lease for each: an orderly
// end of the node ends their contexts, waits for the functions, and gives back no lease under which
// a function still runs.
package running

import (
	"context"
	"sync"
)

// Set has the running functions of one node, each with a lease of type L. The zero Set is empty. A
// Set may be used by several goroutines at once.
type Set[L any] struct {
	mu      sync.Mutex
	closed  error // why no further function may run; nil before Close
	running map[*Function[L]]struct{}
	ended   chan struct{} // closed at the next end of a function, or by Recheck; nil while none waits
}

// Function is a function that runs, or that waits for its lease. End must be called.
type Function[L any] struct {
	set    *Set[L]
	lease  L
	cancel context.CancelCauseFunc // of the function's context; nil before Hold
}

// Begin adds a function that waits for its lease. After [Set.Close] Begin returns nil.
func (s *Set[L]) Begin() *Function[L] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return nil
	}
	if s.running == nil {
		s.running = make(map[*Function[L]]struct{})
	}
	f := &Function[L]{set: s}
	s.running[f] = struct{}{}
	return f
}

// Hold says that the function has its lease, and how to end its context. After [Set.Close] the
// context ends at once.
func (f *Function[L]) Hold(lease L, cancel context.CancelCauseFunc) {
	s := f.set
	s.mu.Lock()
	f.lease, f.cancel = lease, cancel
	closed := s.closed
	s.mu.Unlock()
	if closed != nil {
		cancel(closed)
	}
}

// End removes a function that has returned, after the release of its lease.
func (f *Function[L]) End() {
	s := f.set
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, f)
	s.wake()
}

// Close has no further function begin, and ends the contexts of all functions with a cause, but for
// functions with an excepted lease. Close returns the leases of the other functions, and whether
// there are functions to wait for: some may have no lease yet. Only the first cause counts.
func (s *Set[L]) Close(cause error, excepted func(L) bool) (leases []L, are bool) {
	s.mu.Lock()
	if s.closed == nil {
		s.closed = cause
	}
	cause = s.closed
	var all []*Function[L]
	for f := range s.running {
		if f.cancel != nil {
			all = append(all, f)
		}
	}
	are = len(s.running) > 0
	s.mu.Unlock()
	for _, f := range all { // without the lock: a context calls functions of the application
		if !excepted(f.lease) {
			leases = append(leases, f.lease)
			f.cancel(cause)
		}
	}
	return leases, are
}

// Recheck has Wait ask anew which leases are excepted.
func (s *Set[L]) Recheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake()
}

// wake wakes the goroutines in Wait. The caller holds the lock.
func (s *Set[L]) wake() {
	if s.ended != nil {
		close(s.ended)
		s.ended = nil
	}
}

// Wait waits until all functions have ended, or ctx ends, and returns the leases of the functions
// that still run. Functions with an excepted lease are neither waited for nor returned.
func (s *Set[L]) Wait(ctx context.Context, excepted func(L) bool) []L {
	for {
		_, are, ended := s.left(excepted)
		if !are {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			leases, _, _ := s.left(excepted)
			return leases
		}
	}
}

// left returns the leases of the functions that still run, without the excepted ones; whether there
// are functions to wait for, some of them without a lease yet; and a channel that is closed when
// this may have changed.
func (s *Set[L]) left(excepted func(L) bool) (leases []L, are bool, ended <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.running {
		switch {
		case f.cancel == nil:
			are = true
		case !excepted(f.lease):
			leases, are = append(leases, f.lease), true
		}
	}
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	return leases, are, s.ended
}
