package statedir

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Store is the state directory of a [Writer]: a [Dir], or a directory in a test's memory.
type Store interface {
	Save(st *vote.DiskState) error
	SavePeers(addrs []string) error
	Close() error
}

// Writer writes a node's state into the node's directory, so that a slow disk delays nothing else.
// One goroutine runs the writer and owns the directory.
type Writer struct {
	store  Store
	now    func() vote.Instant
	report Report
	states chan vote.DiskState // capacity 1: the node has at most one save under way
	// capacity 1: the peers' addresses; the newest replace addresses not written yet
	addrs chan []string

	savedAddrs []string    // passed to the writer last; owned by the caller of SavePeers
	unsaved    atomic.Bool // the addresses passed last could not be written

	busySince atomic.Int64 // since when the disk has been busy, by the clock; zero while idle
	done      chan struct{}
	err       error // from closing the directory; written before done is closed
}

// Report receives the results of a [Writer]. The writer's goroutine calls the functions.
type Report struct {
	// Saved receives the result of a save, by the number of writes of the state.
	Saved func(writes uint64, err error)
	// PeersFailed receives the error of a failed save of addresses, which SavePeers will repeat.
	PeersFailed func(err error)
}

// NewWriter returns the writer of an open directory. now reads a clock that doesn't go back.
func NewWriter(store Store, now func() vote.Instant, report Report) *Writer {
	return &Writer{
		store: store, now: now, report: report,
		states: make(chan vote.DiskState, 1), addrs: make(chan []string, 1), done: make(chan struct{}),
	}
}

// Run writes states and addresses until ended is closed, and then closes the directory: whatever is
// still unwritten is given up, as after a crash.
func (w *Writer) Run(ended <-chan struct{}) {
	defer close(w.done)
	for {
		select {
		case <-ended:
			w.err = w.store.Close()
			return
		case state := <-w.states:
			w.report.Saved(state.Writes, w.disk(func() error { return w.store.Save(&state) }))
		case addrs := <-w.addrs:
			if err := w.disk(func() error { return w.store.SavePeers(addrs) }); err != nil {
				w.report.PeersFailed(err)
				w.unsaved.Store(true)
			}
		}
	}
}

// disk makes a call that waits for the disk, and records when the call began.
func (w *Writer) disk(do func() error) error {
	w.busySince.Store(int64(w.now()))
	defer w.busySince.Store(0)
	return do()
}

// Save has a state written. The caller passes the next state only after the report of this state,
// so Save doesn't block.
func (w *Writer) Save(state vote.DiskState) { w.states <- state }

// SavePeers has the addresses of other nodes written, unless they were written last. It doesn't
// block. Only one goroutine calls SavePeers.
func (w *Writer) SavePeers(addrs []string) {
	if slices.Equal(addrs, w.savedAddrs) && !w.unsaved.Swap(false) {
		return
	}
	w.savedAddrs = addrs
	select {
	case <-w.addrs:
	default:
	}
	w.addrs <- addrs
}

// Wait waits until the directory is released, after the end of Run's channel, and returns the error
// of that. A call to the disk is waited for until it has taken patience; then answered is false.
func (w *Writer) Wait(patience time.Duration) (answered bool, err error) {
	if since := w.busySince.Load(); since != 0 {
		patience = max(patience-w.now().Sub(vote.Instant(since)), 0)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.done:
		return true, w.err
	case <-timer.C:
		return false, nil
	}
}
