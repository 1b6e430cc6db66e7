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
	{"try-one-wins", "Of TryLocks at once on a free key exactly one gets it.", nil, (*probe).tryOneWins},
	{"held-is-told", "The error of a TryLock says when somebody else has the key, and says so only then.", needs(HasIsHeld), (*probe).heldIsTold},
	{"unlock-twice", "A second Unlock is an error.", nil, (*probe).unlockTwice},
	{"unlock-stale", "An Unlock by an old handle leaves the next holder alone, be it another client or the same.", nil, (*probe).unlockStale},
	{"unlock-cut-short", "An Unlock whose context has ended can be called again, and then the key is free.", nil, (*probe).unlockCutShort},
	{"unlock-retried", "An Unlock that arrived, though its context ended, can be called again, and leaves alone whoever holds the key by then.", nil, (*probe).unlockRetried},
	{"done", "Done is open while the lock is held, and closed after Unlock.", needs(HasDone), (*probe).done},
	{"err", "Err is nil while the lock is held, and an error after Unlock.", needs(HasErr), (*probe).err},
	{"tokens-rise", "Each holder of a key has a larger token than those before it.", needs(HasTokens), (*probe).tokensRise},
	{"value", "What a holder writes beside its lock is what others read, until the lock is given back.", needs(HasValues), (*probe).value},
}

// contend lets clients hold a key by turns, one goroutine for each of them, and watches.
func (p *probe) contend(cs []*client, m mode) {
	key, w := p.key(), p.witness()
	p.all(len(cs), func(i int) {
		r := p.rng(i)
		for range p.o.Turns / len(cs) {
			g := p.hold(cs[i], key, m)
			w.turn(g, r)
			w.release(g)
		}
	})
	w.judge()
}

func (p *probe) exclusion() { p.contend(p.crowd(), byLock) }

func (p *probe) exclusionInClient() {
	p.contend(slices.Repeat([]*client{p.client()}, p.o.Clients), byLock)
}

func (p *probe) tryFree() {
	cs, key := p.crowd(), p.key()
	for i := range 5 * len(cs) {
		m := byTry
		if i%3 == 1 {
			m = byLock
		}
		p.release(p.hold(cs[i%len(cs)], key, m))
	}
	// One that has been waited for is no different.
	first := p.lock(cs[0], key)
	waiter := p.start(cs[1], key, byLock)
	p.queued(key, 1)
	p.release(first)
	p.release(waiter.served(0))
	p.release(p.hold(cs[2], key, byTry))
}

func (p *probe) tryHeld() {
	cs, key := p.some(3), p.key()
	g := p.lock(cs[0], key)
	for range 5 {
		_ = p.refused(cs[1], byTry, g)
		_ = p.refused(cs[2], byTry, g)
	}
	p.release(g)
	p.release(p.lock(cs[1], key)) // nothing is left of those who were refused
}

func (p *probe) tryOneWins() {
	cs, key := p.crowd(), p.key()
	for round := range 60 {
		won := make([]*grip, len(cs))
		var ready sync.WaitGroup
		ready.Add(len(cs))
		p.all(len(cs), func(i int) {
			ready.Done()
			ready.Wait()
			ctx, cancel := p.within()
			defer cancel()
			won[i], _ = p.take(ctx, cs[i], key, byTry)
			if ctx.Err() != nil {
				p.fatalf("TryLock by %s waited for %v", cs[i].name, p.o.Patience)
			}
		})
		won = slices.DeleteFunc(won, func(g *grip) bool { return g == nil })
		if len(won) != 1 {
			p.fatalf("round %d: of %d TryLocks on a free key %d got it", round, len(cs), len(won))
		}
		p.release(won[0])
	}
}

func (p *probe) heldIsTold() {
	isHeld := p.x.s.(HeldTeller).IsHeld
	cs, key := p.some(2), p.key()
	g := p.lock(cs[0], key)
	if err := p.refused(cs[1], byTry, g); !isHeld(err) {
		p.errorf("the key is held, and IsHeld says no to the error %v", err)
	}
	p.release(g)
	if isHeld(nil) {
		p.errorf("IsHeld says yes to nil")
	}
	if g, err := p.take(p.ended(), cs[1], p.key(), byTry); err == nil {
		_ = p.unlock(p.ctx, g) // another promise is about that
	} else if isHeld(err) {
		p.errorf("the key is free and the context has ended, and IsHeld says yes to the error %v", err)
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
	cs, key := p.some(3), p.key()
	old := p.lock(cs[0], key)
	p.release(old)
	for _, c := range []*client{cs[1], cs[0]} {
		g := p.lock(c, key)
		_ = p.unlock(p.ctx, old) // whether it is an error is for unlock-twice
		p.held(g)
		_ = p.refused(cs[2], byTry, g)
		p.release(g)
	}
}

func (p *probe) unlockCutShort() {
	cs, key := p.some(2), p.key()
	for range 5 {
		g := p.lock(cs[0], key)
		_ = p.unlock(p.ended(), g)
		_ = p.unlock(p.ctx, g)
		p.release(p.lock(cs[1], key))
	}
}

func (p *probe) unlockRetried() {
	cs, r := p.some(2), p.rng(0)
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
		// If it didn't arrive there is nothing to see here.
		ctx, cancel = p.within()
		other, err := p.take(ctx, cs[1], key, byTry)
		cancel()
		if err != nil {
			_ = p.unlock(p.ctx, old)
			continue
		}
		p.release(other)
		g = p.lock(cs[0], key)
		_ = p.unlock(p.ctx, old)
		_ = p.refused(cs[1], byTry, g)
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
	p.until(0, "Done is closed after Unlock", func() bool {
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
	cs, keys := p.crowd(), []string{p.key(), p.key()}
	last := make([]uint64, len(keys))
	for i := range 8 * len(cs) {
		m := byLock
		if i%3 == 1 {
			m = byTry
		}
		g := p.hold(cs[i%len(cs)], keys[i%len(keys)], m)
		token := p.token(g)
		if before := last[i%len(keys)]; token <= before {
			p.wrongf("a holder has the token %d, and one before it had %d", token, before)
		}
		last[i%len(keys)] = token
		p.release(g)
	}
}

func (p *probe) value() {
	cs, key := p.some(2), p.key()
	read := func(want string) {
		p.until(0, fmt.Sprintf("Value is %q", want), func() bool {
			ctx, cancel := p.within()
			defer cancel()
			var got []byte
			if err := p.guard(ctx, "Value", func() (err error) { got, err = cs[1].Client.(Values).Value(ctx, key); return err }); err != nil {
				p.fatalf("Value: %v", err)
			}
			return string(got) == want
		})
	}
	read("")
	for _, value := range []string{"10.0.0.7:80", "\x00\xff is bytes, not text"} {
		g := p.hold(cs[0], key, mode{"LockValue", 1, takeValue(value)})
		read(value)
		p.release(g)
		read("")
	}
	g := p.lock(cs[1], key)
	read("") // it isn't left to who holds the key next
	p.release(g)
}
