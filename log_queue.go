package lockmesh

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxQueuedRecords is how many log lines wait for a slow handler before further lines are dropped.
	maxQueuedRecords = 1024

	// logCloseTimeout is how long closing waits for a handler that doesn't return.
	logCloseTimeout = time.Second
)

// logQueue is the queue of log lines for the application's handler, written by a goroutine of its
// own. A handler is code of the application and may block; then lines are dropped and counted, and
// leases stay alive.
type logQueue struct {
	records chan queuedRecord
	dropped atomic.Uint64
	panics  atomic.Uint64
	quit    chan struct{}
	done    chan struct{}
	once    sync.Once
}

type queuedRecord struct {
	to     slog.Handler
	record slog.Record
}

func newLogQueue() *logQueue {
	j := &logQueue{records: make(chan queuedRecord, maxQueuedRecords), quit: make(chan struct{}), done: make(chan struct{})}
	go j.run()
	return j
}

func (j *logQueue) run() {
	defer close(j.done)
	for {
		select {
		case l := <-j.records:
			j.write(l)
		case <-j.quit:
			for {
				select {
				case l := <-j.records:
					j.write(l)
				default:
					return
				}
			}
		}
	}
}

// write passes a line to the handler. A panic of the handler is the application's mistake, which
// must not end the process, and the leases with it: the line is lost and counted.
func (j *logQueue) write(l queuedRecord) {
	defer func() {
		if recover() != nil {
			j.panics.Add(1)
		}
	}()
	if !l.to.Enabled(context.Background(), l.record.Level) {
		return
	}
	if n := j.dropped.Swap(0); n > 0 {
		l.record.AddAttrs(slog.Uint64("lines_dropped_before", n))
	}
	panics := j.panics.Load()
	if panics > 0 {
		l.record.AddAttrs(slog.Uint64("handler_panics_before", panics))
	}
	_ = l.to.Handle(context.Background(), l.record) // an error can't be reported anywhere
	j.panics.Add(-panics)
}

// close writes the queued lines and ends the goroutine. Later lines are lost.
func (j *logQueue) close() {
	j.once.Do(func() { close(j.quit) })
	patience := time.NewTimer(logCloseTimeout)
	defer patience.Stop()
	select {
	case <-j.done:
	case <-patience.C:
	}
}

// handler returns a handler that never waits for next.
func (j *logQueue) handler(next slog.Handler) slog.Handler { return &asyncHandler{next, j} }

type asyncHandler struct {
	next  slog.Handler
	queue *logQueue
}

// Enabled always reports true: the journal's goroutine asks next, since next is code of the
// application as well.
func (p *asyncHandler) Enabled(context.Context, slog.Level) bool { return true }

func (p *asyncHandler) Handle(_ context.Context, r slog.Record) error {
	select {
	case p.queue.records <- queuedRecord{p.next, r.Clone()}:
	default:
		p.queue.dropped.Add(1)
	}
	return nil
}

func (p *asyncHandler) WithAttrs(as []slog.Attr) slog.Handler {
	return p.with(func() slog.Handler { return p.next.WithAttrs(as) })
}

func (p *asyncHandler) WithGroup(name string) slog.Handler {
	return p.with(func() slog.Handler { return p.next.WithGroup(name) })
}

// with returns the handler derived from next, or p itself if next panics.
func (p *asyncHandler) with(made func() slog.Handler) (h slog.Handler) {
	defer func() {
		if recover() != nil {
			h = p
		}
	}()
	return &asyncHandler{made(), p.queue}
}
