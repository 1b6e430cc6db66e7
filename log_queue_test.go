package lockmesh

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestALogThatIsTooSlowLosesLinesAndCountsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		slow := stuck{slog.NewTextHandler(&out, nil), make(chan struct{})}
		j := newLogQueue()
		log := slog.New(j.handler(through{slow})).With("who", "me").WithGroup("g")
		const lines = maxQueuedRecords + 100
		for i := range lines {
			log.Info(fmt.Sprintf("line %d.", i), "k", "v")
		}
		synctest.Wait()
		close(slow.free)
		synctest.Wait()
		log.Info("the last")
		j.close()
		text := out.String()
		// The writer has taken one line out of the queue before it got stuck.
		if got := strings.Count(text, "\n"); got < maxQueuedRecords || got > maxQueuedRecords+2 {
			t.Errorf("%d lines", got)
		}
		for _, part := range []string{"line 0.", "who=me g.k=v", "the last", "lines_dropped_before="} {
			if !strings.Contains(text, part) {
				t.Errorf("%q is missing", part)
			}
		}
	})
}

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
		j := newLogQueue()
		log := stuck{slog.DiscardHandler, make(chan struct{})}
		slog.New(j.handler(log)).Info("line")
		began := time.Now()
		j.close()
		if took := time.Since(began); took != logCloseTimeout {
			t.Errorf("it took %v", took)
		}
		close(log.free)
		<-j.done
	})
}
