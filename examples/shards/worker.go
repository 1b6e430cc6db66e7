package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/lockmesh/lockmesh"
)

// parts is the number of partitions. It never changes, is the same on all nodes, and is several
// times the largest number of nodes, so that shares are about even.
const parts = 64

func partKey(p int) string { return fmt.Sprintf("shards/part/%02d", p) }

// worker does a node's part of the work: it holds a fair share of the partitions, each by a
// separate lock. There is no coordinator. Of n workers each should have parts/n partitions: rounded
// up at most (the maximum), and rounded down at least (the minimum).
//
//   - While a worker has fewer than the maximum, it waits for the locks of all its missing
//     partitions, and so gets the next free partition, as when a node crashes.
//   - A worker gives back partitions beyond the maximum: it finishes the current unit of work, and
//     unlocks.
//   - While a worker has fewer than the minimum, it is in need, and says so to the others. Then the
//     maximum of the other workers is the minimum.
//
// While a worker is in need, another worker has more than the minimum, so in the end all shares are
// even. Every step follows from an event; there is no polling.
type worker struct {
	mesh *lockmesh.Mesh
	// work works on a partition and returns soon after the lease has ended, or when enough is
	// closed and the current unit of work is finished.
	work func(p int, lease *lockmesh.Lease, enough <-chan struct{})
	// changed is called with the number of partitions held, and the number of known workers. It may
	// be nil.
	changed func(held, members int)

	calls       chan func() // functions for run to call, so that all state below is owned by run
	ended       chan struct{}
	tasks       sync.WaitGroup // started by run
	membership                 // as last seen
	held        map[int]*share
	pending     map[int]context.CancelFunc // cancels a waiting Lock
	granted     int
	inNeed      bool
	needUpdates chan bool // holds the newest value of inNeed until belong has read it
	ending      bool
	err         error // why the worker can't go on
}

// share is a partition held by this node.
type share struct {
	number int           // the order of the grants
	stop   chan struct{} // closed to give the partition back
	giving bool          // enough is closed
}

func newWorker(mesh *lockmesh.Mesh) *worker {
	return &worker{
		mesh: mesh, calls: make(chan func()), ended: make(chan struct{}),
		inNeed: true, needUpdates: make(chan bool, 1), held: make(map[int]*share), pending: make(map[int]context.CancelFunc),
	}
}

// run works until ctx ends, and then finishes the current work and releases everything. It returns
// an error if the worker fails before then.
func (w *worker) run(ctx context.Context) error {
	member, resign := context.WithCancel(ctx)
	w.tasks.Go(func() { w.joinPool(member) })
	interrupted := ctx.Done()
	for !w.ending || len(w.held)+len(w.pending) > 0 {
		select {
		case f := <-w.calls:
			f()
		case <-interrupted:
			w.ending, interrupted = true, nil
		}
		w.ending = w.ending || w.err != nil
		w.rebalance(ctx)
		if w.changed != nil {
			w.changed(len(w.held), w.members)
		}
	}
	close(w.ended)
	resign()
	w.tasks.Wait()
	return w.err
}

// runInLoop has run call f, unless run has ended.
func (w *worker) runInLoop(f func()) {
	select {
	case w.calls <- f:
	case <-w.ended:
	}
}

// fairShare returns the minimum and the maximum share of a worker.
func fairShare(parts, members int) (least, most int) {
	return parts / members, (parts + members - 1) / members
}

// limits returns how many partitions this worker must have so as not to be in need, and how many it
// should have at most.
func (w *worker) limits() (least, most int) {
	if w.members == 0 || w.ending {
		return 0, 0
	}
	least, most = fairShare(parts, w.members)
	if w.othersInNeed {
		most = least
	}
	return least, most
}

// kept returns the partitions not being given back, the newest first.
func (w *worker) kept() []*share {
	var all []*share
	for _, s := range w.held {
		if !s.giving {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *share) int { return b.number - a.number })
	return all
}

// rebalance acts on the current state: it gives partitions back, waits for others, and stops
// waiting.
func (w *worker) rebalance(ctx context.Context) {
	least, most := w.limits()
	kept := w.kept()
	have := len(kept)
	// The newest go first: work on the older partitions is well under way.
	for _, s := range kept[:max(have-most, 0)] {
		s.giveBack()
		have--
	}
	for p := range parts {
		switch cancel := w.pending[p]; {
		case w.held[p] != nil:
		case cancel == nil && have < most:
			w.requestPartition(ctx, p)
		case cancel != nil && have >= most:
			cancel() // the lock may still be granted
		}
	}
	if need := have < least; need != w.inNeed {
		w.inNeed = need
		select {
		case <-w.needUpdates: // the last value is unread and outdated
		default:
		}
		w.needUpdates <- need
	}
}
