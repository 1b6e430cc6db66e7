// Package logqueue passes log lines to a handler of the application without waiting for the
// handler. It is part of lockmesh's implementation, without a compatibility promise.
package logqueue

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxRecords is how many log lines wait for a slow handler before further lines are dropped.
	maxRecords = 1024

	// closeTimeout is how long closing waits for a handler that doesn't return.
	closeTimeout = time.Second
)

// Queue is the queue of log lines for the application's handler, written by a goroutine of its
// own. A handler is code of the application and may block; then lines are dropped and counted, and
// leases stay alive.
type Queue struct {
	records chan record
	dropped atomic.Uint64
	panics  atomic.Uint64
	lost    atomic.Uint64 // dropped lines and panics since the beginning
	quit    chan struct{}
	done    chan struct{}
	once    sync.Once
}

type record struct {
	to     slog.Handler
	record slog.Record
}

// New starts the goroutine of an empty queue; Close ends the goroutine.
func New() *Queue {
	q := &Queue{records: make(chan record, maxRecords), quit: make(chan struct{}), done: make(chan struct{})}
	go q.run()
	return q
}

// run writes lines until Close. A handler may end this goroutine with runtime.Goexit, as a test's
// FailNow does; another goroutine goes on then.
func (q *Queue) run() {
	over := false
	defer func() {
		if over {
			close(q.done)
		} else {
			go q.run()
		}
	}()
	for {
		select {
		case l := <-q.records:
			q.write(l)
		case <-q.quit:
			for {
				select {
				case l := <-q.records:
					q.write(l)
				default:
					over = true
					return
				}
			}
		}
	}
}

// write passes a line to the handler. A panic of the handler is the application's mistake, which
// must not end the process, and the leases with it: the line is lost and counted, as it is with
// runtime.Goexit.
func (q *Queue) write(l record) {
	written := false
	defer func() {
		if !written {
			_ = recover()
			q.panics.Add(1)
			q.lost.Add(1)
		}
	}()
	if !l.to.Enabled(context.Background(), l.record.Level) {
		written = true // the handler wants no such line
		return
	}
	if n := q.dropped.Swap(0); n > 0 {
		l.record.AddAttrs(slog.Uint64("lines_dropped_before", n))
	}
	panics := q.panics.Load()
	if panics > 0 {
		l.record.AddAttrs(slog.Uint64("handler_panics_before", panics))
	}
	_ = l.to.Handle(context.Background(), l.record) // an error can't be reported anywhere
	written = true
	q.panics.Add(-panics)
}

// Close writes the queued lines and ends the goroutine. Later lines are lost.
func (q *Queue) Close() {
	q.once.Do(func() { close(q.quit) })
	patience := time.NewTimer(closeTimeout)
	defer patience.Stop()
	select {
	case <-q.done:
	case <-patience.C:
	}
}

// Lost returns how many lines the handler hasn't taken, since it was too slow or panicked.
func (q *Queue) Lost() uint64 { return q.lost.Load() }

// Handler returns a handler that never waits for next.
func (q *Queue) Handler(next slog.Handler) slog.Handler { return &asyncHandler{next, q} }

type asyncHandler struct {
	next  slog.Handler
	queue *Queue
}

// Enabled always reports true: the queue's goroutine asks next, since next is code of the
// application as well.
func (a *asyncHandler) Enabled(context.Context, slog.Level) bool { return true }

func (a *asyncHandler) Handle(_ context.Context, r slog.Record) error {
	select {
	case a.queue.records <- record{a.next, r.Clone()}:
	default:
		a.queue.dropped.Add(1)
		a.queue.lost.Add(1)
	}
	return nil
}

func (a *asyncHandler) WithAttrs(as []slog.Attr) slog.Handler {
	return a.with(func() slog.Handler { return a.next.WithAttrs(as) })
}

func (a *asyncHandler) WithGroup(name string) slog.Handler {
	return a.with(func() slog.Handler { return a.next.WithGroup(name) })
}

// with returns the handler derived from next, or a itself if next panics.
func (a *asyncHandler) with(made func() slog.Handler) (h slog.Handler) {
	defer func() {
		if recover() != nil {
			h = a
		}
	}()
	return &asyncHandler{made(), a.queue}
}
