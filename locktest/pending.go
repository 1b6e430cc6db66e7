package locktest

import (
	"context"
	"fmt"
	"time"
)

// pendingCall is a call waiting for a key.
type pendingCall struct {
	p        *probe
	client   *client
	mode     mode
	cancel   context.CancelFunc
	returned chan struct{}

	// Written before returned is closed.
	lock *heldLock
	err  error
}

// startAcquire requests a key held by others, and doesn't wait. The call ends with the probe at the
// latest.
func (p *probe) startAcquire(c *client, key string, m mode) *pendingCall {
	w := &pendingCall{p: p, client: c, mode: m, returned: make(chan struct{})}
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(p.ctx)
	p.calls.Go(func() {
		defer close(w.returned)
		w.lock, w.err = p.acquire(ctx, c, key, m)
	})
	return w
}

// waiting reports whether the call is under way.
func (w *pendingCall) waiting() bool {
	select {
	case <-w.returned:
		return false
	default:
		return true
	}
}

// wait waits until the call has returned, for no longer than Timeout after the time that has to
// pass first.
func (w *pendingCall) wait(first time.Duration) {
	bound := time.NewTimer(first + w.p.o.Timeout)
	defer bound.Stop()
	select {
	case <-w.returned:
	case <-bound.C:
		w.p.fatalf("%s by %s was never served", w.mode.name, w.client.name)
	}
}

// mustAcquire waits until the call has its lock.
func (w *pendingCall) mustAcquire(first time.Duration) *heldLock {
	w.wait(first)
	if w.err != nil {
		w.p.fatalf("%s by %s, who waits for the key: %v", w.mode.name, w.client.name, w.err)
	}
	return w.lock
}

// awaitQueued waits until n calls are queued for the key, or, where the queue can't be seen, for
// Settle.
func (p *probe) awaitQueued(key string, n int) {
	q, ok := p.x.s.(Queue)
	if !ok {
		p.sleep(p.o.Settle)
		return
	}
	p.eventually(0, fmt.Sprintf("%d calls wait for the key, and Waiting counts them", n), func() bool {
		ctx, cancel := p.timeoutContext()
		defer cancel()
		var waiting int
		if err := p.invoke(ctx, "Waiting", func() (err error) { waiting, err = q.Waiting(ctx, key); return err }); err != nil {
			p.fatalf("Waiting: %v", err)
		}
		return waiting >= n
	})
	p.pause()
}
