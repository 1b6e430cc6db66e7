package locktest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

var exclusivePromises = []Promise{
	{"exclusion", "Of all clients at most one holds a key at any time.", nil, (*probe).exclusion},
	{"exclusion-in-client", "Two calls of one client exclude each other like calls of two clients.", nil, (*probe).exclusionInClient},
	{"try-free", "TryLock gets a free key, and once Unlock has returned the key is free for every client.", nil, (*probe).tryFree},
	{"try-held", "TryLock of a held key fails while the key is still held, and changes nothing.", nil, (*probe).tryHeld},
	{"try-one-wins", "Of several concurrent TryLock calls on a free key exactly one succeeds.", nil, (*probe).tryOneWins},
	{"held-is-told", "The error of TryLock reports that the key is held if another call holds the key, and only then.", requires(HasIsHeld), (*probe).heldIsTold},
	{"unlock-twice", "A second Unlock is an error.", nil, (*probe).unlockTwice},
	{"unlock-stale", "An Unlock by an old handle does not affect the next holder, whether another client or the same client.", nil, (*probe).unlockStale},
	{"unlock-cut-short", "After an Unlock with an ended context, a second Unlock releases the key.", nil, (*probe).unlockCutShort},
	{"unlock-retried", "An Unlock that took effect although its context ended can be called again, and does not affect a later holder.", nil, (*probe).unlockRetried},
	{"done", "Done is open while the lock is held, and closed after Unlock.", requires(HasDone), (*probe).done},
	{"err", "Err is nil while the lock is held, and an error after Unlock.", requires(HasErr), (*probe).err},
	{"tokens-rise", "Each holder of a key has a larger token than every earlier holder.", requires(HasTokens), (*probe).tokensRise},
	{"value", "Once LockValue has returned, every client reads the value; once Unlock has returned, none does.", requires(HasValues), (*probe).value},
	{"value-changes", "Once SetValue has returned, every client reads the new value, until the lock is released.", requires(HasValues, HasSetValue), (*probe).valueChanges},
}

// contend lets clients hold a key in turn, one goroutine for each client, under the eye of a
// witness.
func (p *probe) contend(cs []*client, m mode) {
	key, w := p.key(), p.newObserver()
	p.mustParallel(len(cs), func(i int) {
		r := p.rng(i)
		for range p.o.Handovers / len(cs) {
			g := p.mustAcquire(cs[i], key, m)
			w.criticalSection(g, r)
			w.release(g)
		}
	})
	w.check()
}

func (p *probe) exclusion() { p.contend(p.contenders(), lockMode) }

func (p *probe) exclusionInClient() {
	p.contend(slices.Repeat([]*client{p.client()}, p.o.Clients), lockMode)
}

func (p *probe) tryFree() {
	cs, key := p.contenders(), p.key()
	for i := range 5 * len(cs) {
		m := tryLockMode
		if i%3 == 1 {
			m = lockMode
		}
		p.release(p.mustAcquire(cs[i%len(cs)], key, m))
	}
	// A key that a call has waited for is no different.
	first := p.lock(cs[0], key)
	waiter := p.startAcquire(cs[1], key, lockMode)
	p.awaitQueued(key, 1)
	p.release(first)
	p.release(waiter.mustAcquire(0))
	p.release(p.mustAcquire(cs[2], key, tryLockMode))
}

func (p *probe) tryHeld() {
	cs, key := p.nClients(3), p.key()
	g := p.lock(cs[0], key)
	for range 5 {
		_ = p.mustRefuse(cs[1], tryLockMode, g)
		_ = p.mustRefuse(cs[2], tryLockMode, g)
	}
	p.release(g)
	p.release(p.lock(cs[1], key)) // refused calls have left nothing behind
}

func (p *probe) tryOneWins() {
	cs, key := p.contenders(), p.key()
	for round := range 60 {
		won := make([]*heldLock, len(cs))
		var ready sync.WaitGroup
		ready.Add(len(cs))
		p.mustParallel(len(cs), func(i int) {
			ready.Done()
			ready.Wait()
			ctx, cancel := p.timeoutContext()
			defer cancel()
			won[i], _ = p.acquire(ctx, cs[i], key, tryLockMode)
			if ctx.Err() != nil {
				p.fatalf("TryLock by %s waited for %v", cs[i].name, p.o.Timeout)
			}
		})
		won = slices.DeleteFunc(won, func(g *heldLock) bool { return g == nil })
		if len(won) != 1 {
			p.fatalf("round %d: of %d TryLocks on a free key %d got it", round, len(cs), len(won))
		}
		p.release(won[0])
	}
}

func (p *probe) heldIsTold() {
	isHeld := p.x.s.(ErrorClassifier).IsHeld
	cs, key := p.nClients(2), p.key()
	g := p.lock(cs[0], key)
	if err := p.mustRefuse(cs[1], tryLockMode, g); !isHeld(err) {
		p.errorf("the key is held, and IsHeld returns false for the error %v", err)
	}
	p.release(g)
	if isHeld(nil) {
		p.errorf("IsHeld returns true for nil")
	}
	if g, err := p.acquire(p.canceledContext(), cs[1], p.key(), tryLockMode); err == nil {
		_ = p.unlock(p.ctx, g) // another promise is about the success
	} else if isHeld(err) {
		p.errorf("the key is free and the context has ended, and IsHeld returns true for the "+
			"error %v", err)
	}
	if p.x.capabilities[HasStop] {
		p.heldOfMajority()
	}
}

func (p *probe) unlockTwice() {
	g := p.lock(p.client(), p.key())
	p.release(g)
	for range 2 {
		if p.unlock(p.ctx, g) == nil {
			p.errorf("a lock was unlocked again, without an error")
		}
	}
}

func (p *probe) unlockStale() {
	cs, key := p.nClients(3), p.key()
	old := p.lock(cs[0], key)
	p.release(old)
	for _, c := range []*client{cs[1], cs[0]} {
		g := p.lock(c, key)
		_ = p.unlock(p.ctx, old) // whether there is an error is for unlock-twice
		p.mustBeHeld(g)
		_ = p.mustRefuse(cs[2], tryLockMode, g)
		p.release(g)
	}
}

func (p *probe) unlockCutShort() {
	cs, key := p.nClients(2), p.key()
	for range 5 {
		g := p.lock(cs[0], key)
		_ = p.unlock(p.canceledContext(), g)
		_ = p.unlock(p.ctx, g)
		p.release(p.lock(cs[1], key))
	}
}

func (p *probe) unlockRetried() {
	cs, r := p.nClients(2), p.rng(0)
	for range 60 {
		key := p.key()
		g := p.lock(cs[0], key)
		began := time.Now()
		p.release(g)
		took := time.Since(began)

		old := p.lock(cs[0], key)
		ctx, cancel := context.WithTimeout(p.ctx, time.Duration(r.Int64N(1+int64(3*took/2))))
		err := p.unlock(ctx, old)
		cancel()
		if err == nil {
			continue
		}
		// If the Unlock didn't arrive, there is nothing to see here.
		ctx, cancel = p.timeoutContext()
		other, err := p.acquire(ctx, cs[1], key, tryLockMode)
		cancel()
		if err != nil {
			_ = p.unlock(p.ctx, old)
			continue
		}
		p.release(other)
		g = p.lock(cs[0], key)
		_ = p.unlock(p.ctx, old)
		_ = p.mustRefuse(cs[1], tryLockMode, g)
		p.release(g)
	}
}

func (p *probe) done() {
	g := p.lock(p.client(), p.key())
	done := g.lock.(Watched).Done()
	select {
	case <-done:
		p.fatalf("Done is closed, and the lock was just granted")
	default:
	}
	if err := p.unlock(p.ctx, g); err != nil {
		p.fatalf("Unlock: %v", err)
	}
	p.eventually(0, "Done is closed after Unlock", func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
}

func (p *probe) err() {
	g := p.lock(p.client(), p.key())
	c := g.lock.(Checked)
	if err := c.Err(); err != nil {
		p.fatalf("Err is %v, and the lock was just granted", err)
	}
	if err := p.unlock(p.ctx, g); err != nil {
		p.fatalf("Unlock: %v", err)
	}
	for range 2 {
		if c.Err() == nil {
			p.errorf("Err is nil after Unlock")
		}
	}
}

func (p *probe) tokensRise() {
	cs, keys := p.contenders(), []string{p.key(), p.key()}
	last := make([]uint64, len(keys))
	for i := range 8 * len(cs) {
		m := lockMode
		if i%3 == 1 {
			m = tryLockMode
		}
		g := p.mustAcquire(cs[i%len(cs)], keys[i%len(keys)], m)
		token := p.token(g)
		if before := last[i%len(keys)]; token <= before {
			p.inexcusablef("a holder has the token %d, and one before it had %d", token, before)
		}
		last[i%len(keys)] = token
		p.release(g)
	}
}

func (p *probe) value() {
	cs, key := p.nClients(3), p.key()
	p.mustRead(cs, key, "")
	for i, value := range []string{"10.0.0.7:80", "\x00\xff is bytes, not text"} {
		for range 5 {
			g := p.mustAcquire(cs[i], key, mode{"LockValue", 1, lockValue(value)})
			p.mustRead(cs, key, value)
			p.release(g)
			p.mustRead(cs, key, "")
		}
	}
	g := p.lock(cs[1], key)
	p.mustRead(cs, key, "") // the value isn't left to the next holder
	p.release(g)
}

func (p *probe) valueChanges() {
	cs, key := p.nClients(3), p.key()
	for i, c := range cs {
		g := p.mustAcquire(c, key, mode{"LockValue", 1, lockValue("at first")})
		for n := range 10 {
			value := fmt.Sprintf("value %d of %d", n, i)
			ctx, cancel := p.timeoutContext()
			err := p.invoke(ctx, "SetValue", func() error {
				return g.lock.(ValueSetter).SetValue(ctx, []byte(value))
			})
			cancel()
			if err != nil {
				p.fatalf("SetValue: %v", err)
			}
			p.mustRead(cs, key, value)
		}
		p.release(g)
		p.mustRead(cs, key, "")
	}
}

// mustRead has each client read the value of a key, once.
func (p *probe) mustRead(cs []*client, key, want string) {
	for _, c := range cs {
		ctx, cancel := p.timeoutContext()
		var got []byte
		err := p.invoke(ctx, "Value", func() (err error) {
			got, err = c.Client.(Values).Value(ctx, key)
			return err
		})
		cancel()
		switch {
		case err != nil:
			p.fatalf("Value: %v", err)
		case string(got) != want:
			p.fatalf("%s reads the value %q, want %q", c.name, got, want)
		}
	}
}
