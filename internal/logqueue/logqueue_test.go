package logqueue

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestALogThatIsTooSlowLosesLinesAndCountsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		slow := stuck{slog.NewTextHandler(&out, nil), make(chan struct{})}
		q := New()
		log := slog.New(q.Handler(through{slow})).With("who", "me").WithGroup("g")
		const lines = maxRecords + 100
		for i := range lines {
			log.Info(fmt.Sprintf("line %d.", i), "k", "v")
		}
		synctest.Wait()
		close(slow.free)
		synctest.Wait()
		log.Info("the last")
		q.Close()
		text := out.String()
		if got := q.Lost(); got < 99 || got > 100 {
			t.Errorf("%d lines were lost", got)
		}
		// The writer took one line out of the queue, and is stuck.
		if got := strings.Count(text, "\n"); got < maxRecords || got > maxRecords+2 {
			t.Errorf("%d lines", got)
		}
		for _, part := range []string{"line 0.", "who=me g.k=v", "the last", "lines_dropped_before="} {
			if !strings.Contains(text, part) {
				t.Errorf("%q is missing", part)
			}
		}
	})
}

// stuck is a handler that waits until free is closed.
type stuck struct {
	slog.Handler
	free chan struct{}
}

func (s stuck) Enabled(context.Context, slog.Level) bool { return true }

func (s stuck) Handle(context.Context, slog.Record) error { <-s.free; return nil }

// through waits as stuck does, and then writes.
type through struct{ stuck }

func (h through) Handle(ctx context.Context, r slog.Record) error {
	<-h.free
	return h.Handler.Handle(ctx, r)
}

func (h through) WithAttrs(as []slog.Attr) slog.Handler {
	return through{stuck{h.Handler.WithAttrs(as), h.free}}
}

func (h through) WithGroup(name string) slog.Handler {
	return through{stuck{h.Handler.WithGroup(name), h.free}}
}

func TestClosingTheLogDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New()
		log := stuck{slog.DiscardHandler, make(chan struct{})}
		slog.New(q.Handler(log)).Info("line")
		began := time.Now()
		q.Close()
		if took := time.Since(began); took != closeTimeout {
			t.Errorf("it took %v", took)
		}
		close(log.free)
		<-q.done
	})
}

// A handler that ends its goroutine, as FailNow of a test does, costs a line, and not the log.
func TestAHandlerThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New()
		h := &exiting{}
		log := slog.New(q.Handler(h))
		for range 3 {
			log.Info("a line")
		}
		synctest.Wait()
		if h.calls != 3 || q.Lost() != 2 {
			t.Errorf("%d calls, %d lines lost", h.calls, q.Lost())
		}
		q.Close()
	})
}

// exiting is a handler that ends its goroutine at the first two lines.
type exiting struct {
	slog.Handler
	calls int
}

func (e *exiting) Enabled(context.Context, slog.Level) bool { return true }

func (e *exiting) Handle(context.Context, slog.Record) error {
	if e.calls++; e.calls < 3 {
		runtime.Goexit()
	}
	return nil
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
