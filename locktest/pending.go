package locktest

import (
	"context"
	"fmt"
	"time"
)

// pending is a call that waits for a key.
type pending struct {
	p        *probe
	c        *client
	m        mode
	cancel   context.CancelFunc
	returned chan struct{}

	// Written before returned is closed.
	g   *grip
	err error
}

// start asks for a key that others hold, and doesn't wait. The call ends with the probe at the latest.
func (p *probe) start(c *client, key string, m mode) *pending {
	w := &pending{p: p, c: c, m: m, returned: make(chan struct{})}
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(p.ctx)
	p.calls.Go(func() {
		defer close(w.returned)
		w.g, w.err = p.take(ctx, c, key, m)
	})
	return w
}

// waits reports whether the call is under way.
func (w *pending) waits() bool {
	select {
	case <-w.returned:
		return false
	default:
		return true
	}
}

// end waits until the call has returned, for no longer than Patience after the time that has to pass first.
func (w *pending) end(first time.Duration) {
	bound := time.NewTimer(first + w.p.o.Patience)
	defer bound.Stop()
	select {
	case <-w.returned:
	case <-bound.C:
		w.p.fatalf("%s by %s was never served", w.m.name, w.c.name)
	}
}

// served waits until the call has its lock.
func (w *pending) served(first time.Duration) *grip {
	w.end(first)
	if w.err != nil {
		w.p.fatalf("%s by %s, who waits for the key: %v", w.m.name, w.c.name, w.err)
	}
	return w.g
}

// queued waits until n calls stand in line for the key, or, where that can't be seen, for as long as Settle says.
func (p *probe) queued(key string, n int) {
	q, ok := p.x.s.(Queue)
	if !ok {
		p.sleep(p.o.Settle)
		return
	}
	p.until(0, fmt.Sprintf("%d calls wait for the key, and Waiting counts them", n), func() bool {
		ctx, cancel := p.within()
		defer cancel()
		var waiting int
		if err := p.guard(ctx, "Waiting", func() (err error) { waiting, err = q.Waiting(ctx, key); return err }); err != nil {
			p.fatalf("Waiting: %v", err)
		}
		return waiting >= n
	})
	p.pause()
}
