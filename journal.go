package lockmesh

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// linesMax is how many log lines wait for a slow handler before further ones are dropped.
	linesMax = 1024

	// lastLines is how long closing waits for a handler that doesn't return.
	lastLines = time.Second
)

// journal hands log lines to the application's handler, from one goroutine of its own. A handler is the application's code and may
// block; then lines are dropped and counted, and leases live on.
type journal struct {
	lines   chan line
	dropped atomic.Uint64
	quit    chan struct{}
	done    chan struct{}
	once    sync.Once
}

type line struct {
	to     slog.Handler
	record slog.Record
}

func newJournal() *journal {
	j := &journal{lines: make(chan line, linesMax), quit: make(chan struct{}), done: make(chan struct{})}
	go j.run()
	return j
}

func (j *journal) run() {
	defer close(j.done)
	for {
		select {
		case l := <-j.lines:
			j.write(l)
		case <-j.quit:
			for {
				select {
				case l := <-j.lines:
					j.write(l)
				default:
					return
				}
			}
		}
	}
}

func (j *journal) write(l line) {
	if !l.to.Enabled(context.Background(), l.record.Level) {
		return
	}
	if n := j.dropped.Swap(0); n > 0 {
		l.record.AddAttrs(slog.Uint64("lines_dropped_before", n))
	}
	_ = l.to.Handle(context.Background(), l.record) // there is no one to tell
}

// close writes what waits, and ends the goroutine. Lines that come later are lost.
func (j *journal) close() {
	j.once.Do(func() { close(j.quit) })
	patience := time.NewTimer(lastLines)
	defer patience.Stop()
	select {
	case <-j.done:
	case <-patience.C:
	}
}

// handler returns a handler that never waits for next.
func (j *journal) handler(next slog.Handler) slog.Handler { return &patient{next, j} }

type patient struct {
	next slog.Handler
	j    *journal
}

// Enabled reports true: whether next wants a line is asked by the one goroutine, since that is the application's code as well.
func (p *patient) Enabled(context.Context, slog.Level) bool { return true }

func (p *patient) Handle(_ context.Context, r slog.Record) error {
	select {
	case p.j.lines <- line{p.next, r.Clone()}:
	default:
		p.j.dropped.Add(1)
	}
	return nil
}

func (p *patient) WithAttrs(as []slog.Attr) slog.Handler { return &patient{p.next.WithAttrs(as), p.j} }

func (p *patient) WithGroup(name string) slog.Handler { return &patient{p.next.WithGroup(name), p.j} }
