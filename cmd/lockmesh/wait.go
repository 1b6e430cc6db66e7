package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
)

const (
	// quietWait is how long a wait goes on before the user is told: most are over sooner.
	quietWait = 300 * time.Millisecond

	// lookPause is the pause between two looks at the holders.
	lookPause = time.Second
)

// showWait shows the holder of the awaited key on a terminal, until the returned function is
// called. A pipe gets nothing.
func (h *holder) showWait(ctx context.Context, key string) (stop func()) {
	g := h.link.g
	if h.Nonblock || !isScreen(g.err) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.showHolders(ctx, key)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (h *holder) showHolders(ctx context.Context, key string) {
	g, from, shown := h.link.g, time.Now(), false
	defer func() {
		if shown {
			_, _ = fmt.Fprint(g.err, clearLine)
		}
	}()
	pause := time.NewTimer(quietWait)
	defer pause.Stop()
	c, err := h.link.client(nil)
	if err == nil {
		defer h.link.drop(c)
	}
	for err == nil {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		text := h.look(ctx, c, key)
		if ctx.Err() != nil {
			return
		}
		g.showLine(fmt.Sprintf("waiting for %s for %v: %s", safe(key), roundTime(time.Since(from)), text))
		shown = true
		pause.Reset(lookPause)
	}
}

// look tells in a line who holds a key, or why that isn't known.
func (h *holder) look(ctx context.Context, c *admin.Client, key string) string {
	ctx, cancel := context.WithTimeout(ctx, h.link.g.Timeout)
	defer cancel()
	lock, err := c.Inspect(ctx, key)
	switch {
	case err == nil:
		return holdersLine(lock)
	case errors.Is(err, lockmesh.ErrNoQuorum):
		return "no majority of the voters answers"
	case errors.Is(err, admin.ErrNoAnswer):
		return "the node doesn't answer"
	}
	return safe(describe(err))
}

// holdersLine tells in a line who holds a key.
func holdersLine(l *admin.Lock) string {
	switch {
	case len(l.Holders) > 0:
		first := l.Holders[0]
		text := fmt.Sprintf("held by %s for %v", safe(first.Node), roundTime(time.Since(first.Since)))
		if len(first.Value) > 0 {
			text += " (" + safe(string(first.Value)) + ")"
		}
		if n := len(l.Holders) + l.MoreHolders - 1; n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
		if n := len(l.Waiters) + l.MoreWaiters; n > 1 {
			text += fmt.Sprintf("; %d wait", n)
		}
		return text
	case l.DelayedMS > 0:
		return fmt.Sprintf("kept from all for %v more after its last holder", roundTime(time.Duration(l.DelayedMS)*time.Millisecond))
	}
	return "no node holds the key now"
}

// causeOf returns an exit by the signal behind the end of a context, or else the error.
func causeOf(ctx context.Context, err error) error {
	if sig := signalOf(ctx); sig != 0 {
		return &exit{code: exitSignal + int(sig), signal: sig}
	}
	return err
}

// signalOf returns the signal behind the end of a context; zero without such a signal.
func signalOf(ctx context.Context) syscall.Signal {
	var i interrupted
	if errors.As(context.Cause(ctx), &i) {
		return i.signal
	}
	return 0
}
