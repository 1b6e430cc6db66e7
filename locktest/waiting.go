package locktest

import (
	"context"
	"errors"
	"time"
)

var waitingPromises = []Promise{
	{"wake", "Unlock wakes a waiter, and of many waiters each is served in the end.", nil, (*probe).wake},
	{"cancel-error", "A Lock whose context ends, or has ended, returns the context's error.", nil, (*probe).cancelError},
	{"cancel-leaves-nothing", "A Lock whose context has ended leaves nothing behind: who stands behind it is served, and then the key is free.", nil, (*probe).cancelLeavesNothing},
	{"cancel-at-request", "Where the context ends while the request for a free key is on its way, the key stays free, or there is a lock.", nil, (*probe).cancelAtRequest},
	{"cancel-at-grant", "Where the context ends just as the key comes, there is a lock and no error, or an error and no lock.", nil, (*probe).cancelAtGrant},
	{"ended-context", "With a context that has ended before, Lock and TryLock fail and take nothing.", nil, (*probe).endedContext},
}

func (p *probe) wake() {
	cs := p.crowd()
	for range 5 {
		key := p.key()
		g := p.lock(cs[0], key)
		var waiters []*pending
		for _, c := range cs[1:] {
			waiters = append(waiters, p.start(c, key, byLock))
		}
		p.queued(key, len(waiters))
		p.release(g)
		// From here on nobody comes who could wake them by accident.
		p.all(len(waiters), func(i int) { p.release(waiters[i].served(0)) })
	}
}

func (p *probe) cancelError() {
	cs, key := p.some(2), p.key()
	g := p.lock(cs[0], key)
	for _, row := range []struct {
		name string
		ctx  func() (context.Context, context.CancelFunc)
		is   error
	}{
		{"is canceled while it waits", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(p.ctx)
			time.AfterFunc(p.o.Settle, cancel)
			return ctx, cancel
		}, context.Canceled},
		{"has a deadline", func() (context.Context, context.CancelFunc) { return context.WithTimeout(p.ctx, p.o.Settle) }, context.DeadlineExceeded},
		{"had ended before", func() (context.Context, context.CancelFunc) { return p.ended(), func() {} }, context.Canceled},
	} {
		ctx, cancel := row.ctx()
		got, err := p.take(ctx, cs[1], key, byLock)
		cancel()
		if err == nil {
			_ = p.unlock(p.ctx, got)
			p.fatalf("Lock got a key that is held; its context %s", row.name)
		}
		if !errors.Is(err, row.is) {
			p.errorf("Lock, whose context %s, returned %q, which is not a %q", row.name, err, row.is)
		}
	}
	p.release(g)
}

func (p *probe) cancelLeavesNothing() {
	cs := p.some(4)
	// Who gives up is the first in line, the last, or all there are.
	for _, row := range []struct{ stay, giveUp []int }{
		{[]int{2}, []int{1}}, {[]int{1}, []int{2}}, {nil, []int{1, 2}},
	} {
		key := p.key()
		g := p.lock(cs[0], key)
		waiters := make([]*pending, 3)
		for n, i := range []int{1, 2} {
			waiters[i] = p.start(cs[i], key, byLock)
			p.queued(key, n+1)
		}
		p.sleep(p.o.Settle) // giving up while the request is on its way is for cancel-at-request
		for _, i := range row.giveUp {
			waiters[i].cancel()
			waiters[i].end(0)
			if waiters[i].err == nil {
				p.fatalf("%s got a key that %s holds, as its context ended", cs[i].name, cs[0].name)
			}
		}
		p.release(g)
		for _, i := range row.stay {
			p.release(waiters[i].served(0))
		}
		p.release(p.lock(cs[3], key))
		for _, i := range row.giveUp {
			p.release(p.lock(cs[i], key)) // and they may come again
		}
	}
}

func (p *probe) cancelAtRequest() {
	cs, r := p.some(2), p.rng(0)
	for i := range 60 {
		m := byLock
		if i%2 == 1 {
			m = byTry
		}
		key := p.key()
		began := time.Now()
		g := p.hold(cs[0], key, m)
		took := time.Since(began)
		p.release(g)
		// So the context ends before the request goes out, on its way, on the way back, or not in time.
		ctx, cancel := context.WithTimeout(p.ctx, time.Duration(r.Int64N(1+int64(3*took/2))))
		g, err := p.take(ctx, cs[0], key, m)
		cancel()
		if err == nil {
			p.release(g)
		} else {
			p.nextAfter(cs[0], err, cs[1], key)
		}
	}
}

// nextAfter wants a key to be had by another after one who has given up.
func (p *probe) nextAfter(gaveUp *client, because error, next *client, key string) {
	ctx, cancel := p.within()
	defer cancel()
	g, err := p.take(ctx, next, key, byLock)
	if err != nil {
		p.fatalf("Lock by %s, whose context ended, returned %v, and nobody gets the key any more: Lock by %s: %v", gaveUp.name, because, next.name, err)
	}
	p.release(g)
}

func (p *probe) cancelAtGrant() {
	cs, r := p.some(3), p.rng(0)
	for range 60 {
		key := p.key()
		g := p.lock(cs[0], key)
		waiter := p.start(cs[1], key, byLock)
		p.queued(key, 1)
		// The two meet at the service, in an order that differs from turn to turn.
		skew := time.Duration(r.IntN(1000)-500) * time.Microsecond
		p.all(2, func(i int) {
			if i == 0 {
				p.sleep(max(0, skew))
				waiter.cancel()
			} else {
				p.sleep(max(0, -skew))
				p.release(g)
			}
		})
		waiter.end(0)
		if waiter.err == nil {
			p.release(waiter.g)
		}
		p.nextAfter(cs[1], waiter.err, cs[2], key)
	}
}

func (p *probe) endedContext() {
	cs := p.some(2)
	for _, m := range []mode{byLock, byTry} {
		key := p.key()
		for range 10 {
			if g, err := p.take(p.ended(), cs[0], key, m); err == nil {
				_ = p.unlock(p.ctx, g)
				p.fatalf("%s got a key, though its context had ended before", m.name)
			}
			p.release(p.hold(cs[1], key, byTry))
		}
	}
}
