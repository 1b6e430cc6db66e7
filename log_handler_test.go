package lockmesh

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// deaf is a handler with a method Enabled that blocks until free is closed.
type deaf struct {
	slog.Handler
	free chan struct{}
}

func (h deaf) Enabled(context.Context, slog.Level) bool {
	<-h.free
	return false
}

func (h deaf) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h deaf) WithGroup(string) slog.Handler      { return h }

func TestNoCallWaitsForALogHandler(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		h := deaf{slog.DiscardHandler, make(chan struct{})}
		defer close(h.free)
		joined := make(chan struct{})
		go func() {
			defer close(joined)
			a := w.join("a", []string{"a"}, func(c *Config) { c.Logger = slog.New(h) })
			unlock(t, must[*Lease](t)(a.Lock(t.Context(), "k")))
		}()
		synctest.Wait()
		time.Sleep(time.Minute)
		select {
		case <-joined:
		default:
			t.Error("everything waits for the handler")
		}
	})
}
