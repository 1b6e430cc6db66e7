package locktest

import (
	"context"
	"errors"
	"time"
)

var waitingPromises = []Promise{
	{"wake", "Unlock wakes a waiter, and every waiter gets the key in the end.", nil, (*probe).wake},
	{"cancel-error", "If the context of a Lock ends, or has ended, the Lock returns the context's error.", nil, (*probe).cancelError},
	{"cancel-leaves-nothing", "A canceled Lock leaves nothing behind: the next waiter gets the key, and afterwards the key is free.", nil, (*probe).cancelLeavesNothing},
	{"cancel-at-request", "If the context ends while the request for a free key is in flight, either Lock succeeds or the key stays free.", nil, (*probe).cancelAtRequest},
	{"cancel-at-grant", "If the context ends at the moment of the grant, the call returns either a lock or an error, never both and never neither.", nil, (*probe).cancelAtGrant},
	{"ended-context", "With a context that ended before the call, Lock and TryLock fail and acquire nothing.", nil, (*probe).endedContext},
}

func (p *probe) wake() {
	cs := p.contenders()
	for range 5 {
		key := p.key()
		g := p.lock(cs[0], key)
		var waiters []*pendingCall
		for _, c := range cs[1:] {
			waiters = append(waiters, p.startAcquire(c, key, lockMode))
		}
		p.awaitQueued(key, len(waiters))
		p.release(g)
		// From here on no other call comes that could wake the waiters by accident.
		p.mustParallel(len(waiters), func(i int) { p.release(waiters[i].mustAcquire(0)) })
	}
}

func (p *probe) cancelError() {
	cs, key := p.nClients(2), p.key()
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
		{"had ended before", func() (context.Context, context.CancelFunc) { return p.canceledContext(), func() {} }, context.Canceled},
	} {
		ctx, cancel := row.ctx()
		got, err := p.acquire(ctx, cs[1], key, lockMode)
		cancel()
		if err == nil {
			_ = p.unlock(p.ctx, got)
			p.fatalf("Lock got a key that is held; its context %s", row.name)
		}
		if !errors.Is(err, row.is) {
			p.errorf("Lock with a context that %s returned %q instead of %q", row.name, err, row.is)
		}
	}
	p.release(g)
}

func (p *probe) cancelLeavesNothing() {
	cs := p.nClients(4)
	// The waiters giving up are the first in the queue, the last, or all.
	for _, row := range []struct{ stay, giveUp []int }{
		{[]int{2}, []int{1}}, {[]int{1}, []int{2}}, {nil, []int{1, 2}},
	} {
		key := p.key()
		g := p.lock(cs[0], key)
		waiters := make([]*pendingCall, 3)
		for n, i := range []int{1, 2} {
			waiters[i] = p.startAcquire(cs[i], key, lockMode)
			p.awaitQueued(key, n+1)
		}
		p.sleep(p.o.Settle) // giving up while the request is in flight is for cancel-at-request
		for _, i := range row.giveUp {
			waiters[i].cancel()
			waiters[i].wait(0)
			if waiters[i].err == nil {
				p.fatalf("%s got a key that %s holds, as its context ended", cs[i].name, cs[0].name)
			}
		}
		p.release(g)
		for _, i := range row.stay {
			p.release(waiters[i].mustAcquire(0))
		}
		p.release(p.lock(cs[3], key))
		for _, i := range row.giveUp {
			p.release(p.lock(cs[i], key)) // a waiter that gave up may come again
		}
	}
}

func (p *probe) cancelAtRequest() {
	cs, r := p.nClients(2), p.rng(0)
	for i := range 60 {
		m := lockMode
		if i%2 == 1 {
			m = tryLockMode
		}
		key := p.key()
		began := time.Now()
		g := p.mustAcquire(cs[0], key, m)
		took := time.Since(began)
		p.release(g)
		// So the context ends before the request goes out, while the request or the answer is in
		// flight, or not in time.
		ctx, cancel := context.WithTimeout(p.ctx, time.Duration(r.Int64N(1+int64(3*took/2))))
		g, err := p.acquire(ctx, cs[0], key, m)
		cancel()
		if err == nil {
			p.release(g)
		} else {
			p.mustLockAfterCancel(cs[0], err, cs[1], key)
		}
	}
}

// mustLockAfterCancel checks that another client gets the key after a client has given up.
func (p *probe) mustLockAfterCancel(gaveUp *client, because error, next *client, key string) {
	ctx, cancel := p.timeoutContext()
	defer cancel()
	g, err := p.acquire(ctx, next, key, lockMode)
	if err != nil {
		p.fatalf("Lock by %s with an ended context returned %v, and no client gets the key any more: "+
			"Lock by %s: %v", gaveUp.name, because, next.name, err)
	}
	p.release(g)
}

func (p *probe) cancelAtGrant() {
	cs, r := p.nClients(3), p.rng(0)
	for range 60 {
		key := p.key()
		g := p.lock(cs[0], key)
		waiter := p.startAcquire(cs[1], key, lockMode)
		p.awaitQueued(key, 1)
		// The cancellation and the release meet at the service, in a different order from turn to
		// turn.
		skew := time.Duration(r.IntN(1000)-500) * time.Microsecond
		p.mustParallel(2, func(i int) {
			if i == 0 {
				p.sleep(max(0, skew))
				waiter.cancel()
			} else {
				p.sleep(max(0, -skew))
				p.release(g)
			}
		})
		waiter.wait(0)
		if waiter.err == nil {
			p.release(waiter.lock)
		}
		p.mustLockAfterCancel(cs[1], waiter.err, cs[2], key)
	}
}

func (p *probe) endedContext() {
	cs := p.nClients(2)
	for _, m := range []mode{lockMode, tryLockMode} {
		key := p.key()
		for range 10 {
			if g, err := p.acquire(p.canceledContext(), cs[0], key, m); err == nil {
				_ = p.unlock(p.ctx, g)
				p.fatalf("%s got a key, though its context had ended before", m.name)
			}
			p.release(p.mustAcquire(cs[1], key, tryLockMode))
		}
	}
}
