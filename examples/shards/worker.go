package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/lockmesh/lockmesh"
)

// parts is how many partitions the work has. It is the same on all nodes for ever, and some times the largest number of nodes, so that shares are about
// even.
const parts = 64

func partKey(p int) string { return fmt.Sprintf("shards/part/%02d", p) }

// worker is one node's part of the work: it holds its fair share of the partitions, each by a lock of its own. There is no coordinator. Of n workers each
// should have parts/n partitions: rounded up at most, and rounded down at least.
//
//   - While it has fewer than the most, it waits for the locks of all partitions that it hasn't, and so gets the next one that is free, as when a node dies.
//   - What is more than the most it gives back: it finishes the work in hand, and unlocks.
//   - While it has fewer than the least it is in need, and says so where the others see it. Then the least is the most that they have.
//
// While one is in need another has more than the least, so it ends with everyone's share being even. All of that follows from news, and nobody polls.
type worker struct {
	mesh *lockmesh.Mesh
	// work works on a partition and returns soon after the lease has ended, or when enough is closed and the work in hand is finished.
	work func(p int, lease *lockmesh.Lease, enough <-chan struct{})
	// changed is told what the worker holds, and how many workers it knows of. It may be nil.
	changed func(held, members int)

	news    chan func() // what run is to carry out, so that all that follows is its own
	ended   chan struct{}
	tasks   sync.WaitGroup // what run has started
	crew                   // as it was last seen
	held    map[int]*share
	asking  map[int]context.CancelFunc // ends a Lock that waits
	granted int
	inNeed  bool
	profess chan bool // has the newest word on that
	ending  bool
	err     error // why the worker can't go on
}

// share is a partition that this node holds.
type share struct {
	number int           // in order of their grants
	enough chan struct{} // closed when it is to be given back
	giving bool          // it has been
}

func newWorker(mesh *lockmesh.Mesh) *worker {
	return &worker{
		mesh: mesh, news: make(chan func()), ended: make(chan struct{}),
		inNeed: true, profess: make(chan bool, 1), held: make(map[int]*share), asking: make(map[int]context.CancelFunc),
	}
}

// run works until ctx ends, and then finishes what is in hand and gives everything back. It returns an error when it can't go on before that.
func (w *worker) run(ctx context.Context) error {
	member, resign := context.WithCancel(ctx)
	w.tasks.Go(func() { w.belong(member) })
	interrupted := ctx.Done()
	for !w.ending || len(w.held)+len(w.asking) > 0 {
		select {
		case f := <-w.news:
			f()
		case <-interrupted:
			w.ending, interrupted = true, nil
		}
		w.ending = w.ending || w.err != nil
		w.settle(ctx)
		if w.changed != nil {
			w.changed(len(w.held), w.members)
		}
	}
	close(w.ended)
	resign()
	w.tasks.Wait()
	return w.err
}

// post has run carry something out, unless it has ended.
func (w *worker) post(f func()) {
	select {
	case w.news <- f:
	case <-w.ended:
	}
}

// fair returns the least and the most that a worker should have.
func fair(parts, members int) (least, most int) {
	return parts / members, (parts + members - 1) / members
}

// limits returns how many partitions this worker must have so as not to be in need, and how many it should have at most.
func (w *worker) limits() (least, most int) {
	if w.members == 0 || w.ending {
		return 0, 0
	}
	least, most = fair(parts, w.members)
	if w.othersInNeed {
		most = least
	}
	return least, most
}

// kept returns the partitions that are not being given back, the newest first.
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

// settle does what follows from what is known: gives partitions back, waits for others, and stops waiting.
func (w *worker) settle(ctx context.Context) {
	least, most := w.limits()
	kept := w.kept()
	have := len(kept)
	for _, s := range kept[:max(have-most, 0)] { // the newest first: the work on the others is well under way
		s.give()
		have--
	}
	for p := range parts {
		switch cancel := w.asking[p]; {
		case w.held[p] != nil:
		case cancel == nil && have < most:
			w.ask(ctx, p)
		case cancel != nil && have >= most:
			cancel() // it may be granted all the same
		}
	}
	if need := have < least; need != w.inNeed {
		w.inNeed = need
		select {
		case <-w.profess: // nobody has read the last word, and it is no longer true
		default:
		}
		w.profess <- need
	}
}
