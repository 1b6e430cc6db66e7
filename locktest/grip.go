package locktest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"time"
)

// grip is a lock that a client got, as the examination holds it. Apart from ended it is used by one goroutine at a time.
type grip struct {
	lock     Lock
	c        *client
	key      string
	mode     mode
	unlocked bool
	lost     bool // a witness has counted it as lost
}

// ended reports whether its holder knows that the lock is over: by any of the means that it has.
func (g *grip) ended() bool {
	if w, ok := g.lock.(Watched); ok {
		select {
		case <-w.Done():
			return true
		default:
		}
	}
	if c, ok := g.lock.(Checked); ok && c.Err() != nil {
		return true
	}
	e, ok := g.lock.(Expiring)
	return ok && !time.Now().Before(e.Deadline())
}

// token returns the lock's token.
func (p *probe) token(g *grip) uint64 {
	f, ok := g.lock.(Fenced)
	if !ok {
		p.fatalf("the lock of %s by %s has no token, and others have", g.c.name, g.mode.name)
	}
	return f.Token()
}

// take asks for a key and waits for the answer. The grip, if there is one, is given back at the end of the probe at the latest.
func (p *probe) take(ctx context.Context, c *client, key string, m mode) (*grip, error) {
	answer := make(chan Lock, 1)
	err := p.guard(ctx, m.name, func() error {
		lock, err := m.take(ctx, c, key)
		switch {
		case err == nil && lock == nil:
			p.wrongf("%s returned neither a lock nor an error", m.name)
			return errNothing
		case err != nil && lock != nil:
			p.wrongf("%s returned a lock beside the error %v; is it a nil pointer in an interface?", m.name, err)
		case err == nil:
			answer <- lock
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	g := &grip{lock: <-answer, c: c, key: key, mode: m}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grips = append(p.grips, g)
	return g, nil
}

// hold takes a key that has to be had now, or when others who will give it back have done so.
func (p *probe) hold(c *client, key string, m mode) *grip {
	return p.holdAfter(0, c, key, m)
}

// holdAfter is hold where some time has to pass first.
func (p *probe) holdAfter(first time.Duration, c *client, key string, m mode) *grip {
	ctx, cancel := context.WithTimeout(p.ctx, first+p.o.Patience)
	defer cancel()
	g, err := p.take(ctx, c, key, m)
	if err != nil {
		p.fatalf("%s by %s, of a key that it should get: %v", m.name, c.name, err)
	}
	return g
}

func (p *probe) lock(c *client, key string) *grip { return p.hold(c, key, byLock) }

// refused asks for a key that others hold, and wants to hear so.
func (p *probe) refused(c *client, m mode, holders ...*grip) error {
	ctx, cancel := p.within()
	defer cancel()
	g, err := p.take(ctx, c, holders[0].key, m)
	var who []string
	for _, h := range holders {
		p.held(h)
		who = append(who, h.c.name+" by "+h.mode.name)
	}
	if err == nil {
		_ = p.unlock(p.ctx, g)
		p.wrongf("%s got a key by %s, and it is held: %s", c.name, m.name, strings.Join(who, ", "))
		runtime.Goexit()
	}
	if ctx.Err() != nil && !errors.Is(err, errHung) {
		p.fatalf("%s by %s waited for %v while others held the key", m.name, c.name, p.o.Patience)
	}
	return err
}

// unlock gives a lock back, or tries to.
func (p *probe) unlock(ctx context.Context, g *grip) error {
	g.unlocked = true
	ctx, cancel := context.WithTimeout(ctx, p.o.Patience)
	defer cancel()
	return p.guard(ctx, "Unlock", func() error { return g.lock.Unlock(ctx) })
}

// release gives a lock back that is held.
func (p *probe) release(g *grip) {
	p.held(g)
	if err := p.unlock(p.ctx, g); err != nil {
		p.fatalf("Unlock by %s, who holds the lock: %v", g.c.name, err)
	}
}

// held wants a lock to be held still.
func (p *probe) held(g *grip) {
	if g.ended() {
		p.fatalf("%s has lost its lock, though nothing kept it from the service", g.c.name)
	}
}
