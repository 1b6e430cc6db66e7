// Package eventqueue passes events to the application's observer without waiting for the observer.
// The package is part of lockmesh's implementation, without a compatibility promise.
package eventqueue

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxEvents is how many events wait for a slow observer before further events are dropped: the
	// events of some thousand locks, in about a megabyte.
	MaxEvents = 4096

	// closeTimeout is how long Close waits for a hanging observer.
	closeTimeout = time.Second
)

// Queue is the queue of events for the application's observer, with a goroutine of its own. The
// goroutine passes the observer one event after the other. An observer is code of the application
// and may block or panic; then events are dropped and counted, and leases stay alive.
type Queue struct {
	events  chan func() // each passes an event to the observer
	onPanic func(fault any, stack []byte)
	dropped atomic.Uint64
	panics  atomic.Uint64
	closed  atomic.Bool
	givenUp atomic.Bool // Close has returned before the queue was empty
	quit    chan struct{}
	done    chan struct{}
	once    sync.Once
}

// New starts the goroutine of an empty queue; Close ends the goroutine. onPanic is called for the
// first panic of an observer, in the goroutine of the panic.
func New(onPanic func(fault any, stack []byte)) *Queue {
	q := &Queue{
		events: make(chan func(), MaxEvents), onPanic: onPanic,
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	go q.run()
	return q
}

// Put has the queue's goroutine call tell after all events put before. Put never waits: with a full
// or closed queue the event is dropped.
func (q *Queue) Put(tell func()) {
	if !q.closed.Load() {
		select {
		case q.events <- tell:
			return
		default:
		}
	}
	q.dropped.Add(1)
}

// run passes on the queued events until the queue is closed and empty. If the observer ends its
// goroutine (as a test's FailNow does), run ends, and another goroutine takes over.
func (q *Queue) run() {
	over := false
	defer func() {
		if over {
			close(q.done)
		} else {
			go q.run()
		}
	}()
	for !over {
		select {
		case tell := <-q.events:
			q.tell(tell)
		case <-q.quit:
			select {
			case tell := <-q.events:
				q.tell(tell)
			default:
				over = true
			}
		}
	}
}

// tell tells the observer an event, unless Close has returned.
func (q *Queue) tell(event func()) {
	if q.givenUp.Load() {
		q.dropped.Add(1)
		return
	}
	q.Call(event)
}

// Call calls a function of the observer in the caller's goroutine. A panic of the observer is the
// application's mistake, and must not end the process together with the leases: the panic is
// counted.
func (q *Queue) Call(f func()) {
	returned := false
	defer func() {
		if returned {
			return
		}
		fault := recover() // nil if the observer ends the goroutine
		if q.panics.Add(1) == 1 {
			q.onPanic(fault, debug.Stack())
		}
	}()
	f()
	returned = true
}

// Closed reports whether Close was called: the observer is told nothing more.
func (q *Queue) Closed() bool { return q.closed.Load() }

// Dropped returns how many events were dropped.
func (q *Queue) Dropped() uint64 { return q.dropped.Load() }

// Panics returns how many calls of the observer have panicked.
func (q *Queue) Panics() uint64 { return q.panics.Load() }

// Close passes on the queued events and ends the goroutine. Close waits for a second at most, and
// then drops the queued events; an observer hanging for longer keeps the goroutine until the
// observer returns. Later events are dropped.
func (q *Queue) Close() {
	q.once.Do(func() {
		q.closed.Store(true)
		close(q.quit)
	})
	patience := time.NewTimer(closeTimeout)
	defer patience.Stop()
	select {
	case <-q.done:
	case <-patience.C:
		q.givenUp.Store(true)
	}
}
