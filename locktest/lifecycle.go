package locktest

import (
	"time"
)

var lifecyclePromises = []Promise{
	{"outlives-ttl", "A lock lasts until its holder releases the lock or crashes, however short the TTL.", nil, (*probe).outlivesTTL},
	{"deadline", "While the lock is held, the deadline lies in the future, by at most one TTL.", requires(HasDeadline), (*probe).deadline},
	{"crash-frees", "After a holder crashes, a waiter gets the key one TTL later, and so does a client that asks after the TTL.", requires(HasCrash), (*probe).crashFrees},
	{"crash-not-early", "After a holder crashes, no client gets the key before the holder's deadline.", requires(HasCrash, HasDeadline), (*probe).crashNotEarly},
	{"crash-of-waiter", "A crashed waiter does not block the waiters queued behind.", requires(HasCrash), (*probe).crashOfWaiter},
	{"crash-tokens", "Holders after a crashed holder have larger tokens than the crashed holder.", requires(HasCrash, HasTokens), (*probe).crashTokens},
	{"leave-frees", "Once Leave has returned, all locks of the client are released, and the client can acquire no more locks.", requires(HasLeave), (*probe).leaveFrees},
	{"leave-of-waiter", "A waiting client that leaves is removed from the queue.", requires(HasLeave), (*probe).leaveOfWaiter},
	{"lost-is-told", "A disconnected holder sees Done closed before another client gets the key.", requires(HasCut, HasDone), (*probe).lostIsTold},
	{"lost-is-lost", "A lock granted to another client while its holder was disconnected stays lost: Unlock returns an error and does not affect the new holder.", requires(HasCut), (*probe).lostIsLost},
	{"cut-waiter", "A disconnected waiter does not block the waiters queued behind, and after reconnecting its call returns the lock or an error.", requires(HasCut), (*probe).cutWaiter},
}

func (p *probe) outlivesTTL() {
	cs, key := p.nClients(3), p.key()
	g := p.lock(cs[0], key)
	waiter := p.startAcquire(cs[1], key, lockMode)
	for end := time.Now().Add(2*p.o.TTL + p.o.TTL/2); time.Now().Before(end); p.sleep(p.o.TTL / 8) {
		p.mustBeHeld(g)
		if !waiter.waiting() {
			p.fatalf("%s lives and holds the key, and Lock by %s returned: %v", cs[0].name, cs[1].name, waiter.err)
		}
	}
	_ = p.mustRefuse(cs[2], tryLockMode, g)
	p.release(g)
	p.release(waiter.mustAcquire(0))
}

func (p *probe) deadline() {
	cs, key := p.nClients(2), p.key()
	g := p.lock(cs[0], key)
	d := g.lock.(Expiring)
	first := d.Deadline()
	if now := time.Now(); !first.After(now) {
		p.fatalf("the lock was just granted, and its deadline was %v ago", now.Sub(first))
	}
	if ahead := time.Until(first); ahead > p.o.TTL {
		p.errorf("the deadline is %v ahead, and the TTL is %v", ahead, p.o.TTL)
	}
	// When the first deadline has passed, the lock has either been renewed or is over.
	var other *heldLock
	p.eventually(p.o.TTL, "a deadline that is ahead, or the end of the lock", func() bool {
		if time.Now().Before(first) {
			return false
		}
		if d.Deadline().After(time.Now()) {
			return true
		}
		ctx, cancel := p.timeoutContext()
		defer cancel()
		other, _ = p.acquire(ctx, cs[1], key, tryLockMode)
		return other != nil
	})
	if other == nil {
		_ = p.mustRefuse(cs[1], tryLockMode, g)
		_ = p.unlock(p.ctx, g)
	}
}

func (p *probe) crashFrees() {
	cs, keys := p.nClients(3), []string{p.key(), p.key()}
	p.lock(cs[0], keys[0])
	p.lock(cs[0], keys[1])
	waiter := p.startAcquire(cs[1], keys[0], lockMode)
	p.awaitQueued(keys[0], 1)
	p.crash(cs[0])
	p.release(waiter.mustAcquire(p.o.TTL))
	p.release(p.mustAcquireWithin(p.o.TTL, cs[2], keys[1], lockMode))
	p.release(p.mustAcquire(cs[1], keys[1], tryLockMode))
}

func (p *probe) crashNotEarly() {
	cs, key := p.nClients(2), p.key()
	g := p.lock(cs[0], key)
	waiter := p.startAcquire(cs[1], key, lockMode)
	p.awaitQueued(key, 1)
	deadline := g.lock.(Expiring).Deadline()
	p.crash(cs[0])
	next := waiter.mustAcquire(p.o.TTL)
	if early := time.Until(deadline); early > 0 {
		p.inexcusablef("%s has the key %v before the deadline of a holder that died", cs[1].name, early)
	}
	p.release(next)
}

// outageLengths says for how long a waiter has been dead or cut off when its turn comes: too short
// for the service to notice, and long enough.
func (p *probe) outageLengths() []time.Duration { return []time.Duration{0, p.o.TTL + p.o.TTL/2} }

func (p *probe) crashOfWaiter() {
	for _, d := range p.outageLengths() {
		cs, key := p.nClients(3), p.key()
		g := p.lock(cs[0], key)
		dead := p.startAcquire(cs[1], key, lockMode)
		p.awaitQueued(key, 1)
		behind := p.startAcquire(cs[2], key, lockMode)
		p.awaitQueued(key, 2)
		p.crash(cs[1])
		dead.wait(0)
		if dead.err == nil {
			p.fatalf("%s crashed while it waited, and got the key", cs[1].name)
		}
		p.sleep(d)
		_ = p.unlock(p.ctx, g) // the lock may be lost by now, which is for outlives-ttl
		p.release(behind.mustAcquire(p.o.TTL))
	}
}

func (p *probe) crashTokens() {
	cs, key := p.nClients(3), p.key()
	var last uint64
	for i, c := range cs {
		g := p.mustAcquireWithin(p.o.TTL, c, key, lockMode)
		token := p.token(g)
		if token <= last {
			p.inexcusablef("a holder has the token %d, and one before it, which died, had %d", token, last)
		}
		last = token
		if i < len(cs)-1 {
			p.crash(c)
		}
	}
}

func (p *probe) leaveFrees() {
	cs, keys := p.nClients(2), []string{p.key(), p.key()}
	p.lock(cs[0], keys[0])
	p.lock(cs[0], keys[1])
	waiter := p.startAcquire(cs[1], keys[0], lockMode)
	p.awaitQueued(keys[0], 1)
	p.leave(cs[0])
	p.release(p.mustAcquire(cs[1], keys[1], tryLockMode)) // by TryLock, and so not by waiting for a TTL
	p.release(waiter.mustAcquire(0))
	ctx, cancel := p.timeoutContext()
	defer cancel()
	if g, err := p.acquire(ctx, cs[0], p.key(), lockMode); err == nil {
		g.unlocked = true
		p.errorf("Lock by %s, which has left, got a key", cs[0].name)
	} else if ctx.Err() != nil {
		p.errorf("Lock by %s, which has left, waited for %v", cs[0].name, p.o.Timeout)
	}
}

func (p *probe) leaveOfWaiter() {
	cs, key := p.nClients(3), p.key()
	g := p.lock(cs[0], key)
	gone := p.startAcquire(cs[1], key, lockMode)
	p.awaitQueued(key, 1)
	p.leave(cs[1])
	gone.wait(0)
	if gone.err == nil {
		p.fatalf("%s left while it waited, and got the key", cs[1].name)
	}
	p.release(g)
	p.release(p.mustAcquire(cs[2], key, tryLockMode)) // by TryLock, and so not by waiting for a TTL
}

// cutRounds is how often a holder is cut off, since the order of events may be chance.
const cutRounds = 3

func (p *probe) lostIsTold() {
	for range cutRounds {
		cs, key := p.nClients(2), p.key()
		g := p.lock(cs[0], key)
		waiter := p.startAcquire(cs[1], key, lockMode)
		p.awaitQueued(key, 1)
		done := g.lock.(Watched).Done()
		heal := p.cut(cs[0])
		waiter.wait(p.o.TTL)
		select {
		case <-done:
		default:
			if waiter.err == nil {
				// Not wrongf: a timer fired late by the machine explains a late Done.
				p.errorf("%s is cut off and hasn't been notified that its lock is lost, and %s "+
					"has the key", cs[0].name, cs[1].name)
			}
		}
		heal()
		p.release(waiter.mustAcquire(0))
	}
}

func (p *probe) lostIsLost() {
	cs, key := p.nClients(3), p.key()
	g := p.lock(cs[0], key)
	waiter := p.startAcquire(cs[1], key, lockMode)
	p.awaitQueued(key, 1)
	heal := p.cut(cs[0])
	next := waiter.mustAcquire(p.o.TTL)
	heal()
	if p.unlock(p.ctx, g) == nil {
		p.errorf("Unlock by %s returned no error, though the lock had gone to %s meanwhile", cs[0].name, cs[1].name)
	}
	p.mustBeHeld(next)
	_ = p.mustRefuse(cs[2], tryLockMode, next)
	p.release(next)
}

func (p *probe) cutWaiter() {
	for _, d := range p.outageLengths() {
		cs, key := p.nClients(3), p.key()
		g := p.lock(cs[0], key)
		away := p.startAcquire(cs[1], key, lockMode)
		p.awaitQueued(key, 1)
		behind := p.startAcquire(cs[2], key, lockMode)
		p.awaitQueued(key, 2)
		heal := p.cut(cs[1])
		p.sleep(d)
		_ = p.unlock(p.ctx, g) // the lock may be lost by now, which is for outlives-ttl
		next := behind.mustAcquire(p.o.TTL)
		heal()
		p.release(next)
		away.wait(p.o.TTL)
		if away.err == nil {
			p.release(away.lock)
		}
		p.release(p.lock(cs[0], key))
	}
}
