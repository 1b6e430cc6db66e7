package locktest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"time"
)

// heldLock is a held lock, as the suite keeps the lock for a client. Only ended may be called by
// several goroutines at a time.
type heldLock struct {
	lock     Lock
	client   *client
	key      string
	mode     mode
	unlocked bool
	lost     bool // a witness has counted the lock as lost
}

// ended reports whether the holder knows that the lock has ended, by Done, Err or Deadline, as far
// as implemented.
func (h *heldLock) ended() bool {
	if w, ok := h.lock.(Watched); ok {
		select {
		case <-w.Done():
			return true
		default:
		}
	}
	if c, ok := h.lock.(Checked); ok && c.Err() != nil {
		return true
	}
	e, ok := h.lock.(Expiring)
	return ok && !time.Now().Before(e.Deadline())
}

// token returns the lock's token.
func (p *probe) token(g *heldLock) uint64 {
	f, ok := g.lock.(Fenced)
	if !ok {
		p.fatalf("the lock of %s by %s has no token, and others have", g.client.name, g.mode.name)
	}
	return f.Token()
}

// acquire requests a key and waits for the answer. If the request succeeds, the lock is released at
// the end of the probe at the latest.
func (p *probe) acquire(ctx context.Context, c *client, key string, m mode) (*heldLock, error) {
	answer := make(chan Lock, 1)
	err := p.invoke(ctx, m.name, func() error {
		lock, err := m.acquire(ctx, c, key)
		switch {
		case err == nil && lock == nil:
			p.inexcusablef("%s returned neither a lock nor an error", m.name)
			return errNoResult
		case err != nil && lock != nil:
			p.inexcusablef("%s returned a lock beside the error %v; is it a nil pointer in an interface?", m.name, err)
		case err == nil:
			answer <- lock
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	g := &heldLock{lock: <-answer, client: c, key: key, mode: m}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.locks = append(p.locks, g)
	return g, nil
}

// mustAcquire takes a key for a client, which must succeed at once, or as soon as the holders about
// to release the key have done so.
func (p *probe) mustAcquire(c *client, key string, m mode) *heldLock {
	return p.mustAcquireWithin(0, c, key, m)
}

// mustAcquireWithin is hold where some time has to pass first.
func (p *probe) mustAcquireWithin(first time.Duration, c *client, key string, m mode) *heldLock {
	ctx, cancel := context.WithTimeout(p.ctx, first+p.o.Timeout)
	defer cancel()
	g, err := p.acquire(ctx, c, key, m)
	if err != nil {
		p.fatalf("%s by %s, of a key that it should get: %v", m.name, c.name, err)
	}
	return g
}

func (p *probe) lock(c *client, key string) *heldLock { return p.mustAcquire(c, key, lockMode) }

// mustRefuse requests a key held by others, and checks that the request is refused.
func (p *probe) mustRefuse(c *client, m mode, holders ...*heldLock) error {
	ctx, cancel := p.timeoutContext()
	defer cancel()
	g, err := p.acquire(ctx, c, holders[0].key, m)
	var who []string
	for _, h := range holders {
		p.mustBeHeld(h)
		who = append(who, h.client.name+" by "+h.mode.name)
	}
	if err == nil {
		_ = p.unlock(p.ctx, g)
		p.inexcusablef("%s got a key by %s, and it is held: %s", c.name, m.name, strings.Join(who, ", "))
		runtime.Goexit()
	}
	if ctx.Err() != nil && !errors.Is(err, errCallTimeout) {
		p.fatalf("%s by %s waited for %v while others held the key", m.name, c.name, p.o.Timeout)
	}
	return err
}

// unlock releases a lock, or tries to.
func (p *probe) unlock(ctx context.Context, g *heldLock) error {
	g.unlocked = true
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeout)
	defer cancel()
	return p.invoke(ctx, "Unlock", func() error { return g.lock.Unlock(ctx) })
}

// release unlocks a lock after checking that the lock is still held.
func (p *probe) release(g *heldLock) {
	p.mustBeHeld(g)
	if err := p.unlock(p.ctx, g); err != nil {
		p.fatalf("Unlock by %s, who holds the lock: %v", g.client.name, err)
	}
}

// mustBeHeld fails the probe if a lock has ended.
func (p *probe) mustBeHeld(g *heldLock) {
	if g.ended() {
		p.fatalf("%s has lost its lock, though nothing kept it from the service", g.client.name)
	}
}
