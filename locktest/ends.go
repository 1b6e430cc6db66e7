package locktest

import (
	"time"
)

var timePromises = []Promise{
	{"outlives-ttl", "A lock lasts as long as its holder lives and keeps it, however short the TTL.", nil, (*probe).outlivesTTL},
	{"deadline", "The deadline is ahead while the lock is held, by a TTL at most.", needs(HasDeadline), (*probe).deadline},
	{"crash-frees", "When a holder dies, a waiter has the key a TTL later, and so has one who comes after that.", needs(HasCrash), (*probe).crashFrees},
	{"crash-not-early", "When a holder dies, nobody has its key before its deadline.", needs(HasCrash, HasDeadline), (*probe).crashNotEarly},
	{"crash-of-waiter", "A waiter that dies doesn't keep the key from those behind it.", needs(HasCrash), (*probe).crashOfWaiter},
	{"crash-tokens", "The tokens of those who follow a holder that died are larger, too.", needs(HasCrash, HasTokens), (*probe).crashTokens},
	{"leave-frees", "Once Leave has returned, what the client held is free, and it can lock no more.", needs(HasLeave), (*probe).leaveFrees},
	{"leave-of-waiter", "A waiter that leaves takes its place in line along.", needs(HasLeave), (*probe).leaveOfWaiter},
	{"lost-is-told", "A holder that is cut off sees Done closed before another has the key.", needs(HasCut, HasDone), (*probe).lostIsTold},
	{"lost-is-lost", "A lock that went to another while its holder was cut off stays lost: Unlock is an error, and leaves the other alone.", needs(HasCut), (*probe).lostIsLost},
	{"cut-waiter", "A waiter that is cut off doesn't keep the key from those behind it, and is answered when it is back: by the key, or by an error.", needs(HasCut), (*probe).cutWaiter},
}

func (p *probe) outlivesTTL() {
	cs, key := p.some(3), p.key()
	g := p.lock(cs[0], key)
	waiter := p.start(cs[1], key, byLock)
	for end := time.Now().Add(2*p.o.TTL + p.o.TTL/2); time.Now().Before(end); p.sleep(p.o.TTL / 8) {
		p.held(g)
		if !waiter.waits() {
			p.fatalf("%s lives and holds the key, and Lock by %s returned: %v", cs[0].name, cs[1].name, waiter.err)
		}
	}
	_ = p.refused(cs[2], byTry, g)
	p.release(g)
	p.release(waiter.served(0))
}

func (p *probe) deadline() {
	cs, key := p.some(2), p.key()
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
	var other *grip
	p.until(p.o.TTL, "a deadline that is ahead, or the end of the lock", func() bool {
		if time.Now().Before(first) {
			return false
		}
		if d.Deadline().After(time.Now()) {
			return true
		}
		ctx, cancel := p.within()
		defer cancel()
		other, _ = p.take(ctx, cs[1], key, byTry)
		return other != nil
	})
	if other == nil {
		_ = p.refused(cs[1], byTry, g)
		_ = p.unlock(p.ctx, g)
	}
}

func (p *probe) crashFrees() {
	cs, keys := p.some(3), []string{p.key(), p.key()}
	p.lock(cs[0], keys[0])
	p.lock(cs[0], keys[1])
	waiter := p.start(cs[1], keys[0], byLock)
	p.queued(keys[0], 1)
	p.crash(cs[0])
	p.release(waiter.served(p.o.TTL))
	p.release(p.holdAfter(p.o.TTL, cs[2], keys[1], byLock))
	p.release(p.hold(cs[1], keys[1], byTry))
}

func (p *probe) crashNotEarly() {
	cs, key := p.some(2), p.key()
	g := p.lock(cs[0], key)
	waiter := p.start(cs[1], key, byLock)
	p.queued(key, 1)
	deadline := g.lock.(Expiring).Deadline()
	p.crash(cs[0])
	next := waiter.served(p.o.TTL)
	if early := time.Until(deadline); early > 0 {
		p.wrongf("%s has the key %v before the deadline of a holder that died", cs[1].name, early)
	}
	p.release(next)
}

// goneBefore says for how long a waiter has been dead or away when its turn comes: not long enough for the service to know, and long enough.
func (p *probe) goneBefore() []time.Duration { return []time.Duration{0, p.o.TTL + p.o.TTL/2} }

func (p *probe) crashOfWaiter() {
	for _, d := range p.goneBefore() {
		cs, key := p.some(3), p.key()
		g := p.lock(cs[0], key)
		dead := p.start(cs[1], key, byLock)
		p.queued(key, 1)
		behind := p.start(cs[2], key, byLock)
		p.queued(key, 2)
		p.crash(cs[1])
		dead.end(0)
		if dead.err == nil {
			p.fatalf("%s crashed while it waited, and got the key", cs[1].name)
		}
		p.sleep(d)
		_ = p.unlock(p.ctx, g) // it may be lost by now, which is for outlives-ttl
		p.release(behind.served(p.o.TTL))
	}
}

func (p *probe) crashTokens() {
	cs, key := p.some(3), p.key()
	var last uint64
	for i, c := range cs {
		g := p.holdAfter(p.o.TTL, c, key, byLock)
		token := p.token(g)
		if token <= last {
			p.wrongf("a holder has the token %d, and one before it, which died, had %d", token, last)
		}
		last = token
		if i < len(cs)-1 {
			p.crash(c)
		}
	}
}

func (p *probe) leaveFrees() {
	cs, keys := p.some(2), []string{p.key(), p.key()}
	p.lock(cs[0], keys[0])
	p.lock(cs[0], keys[1])
	waiter := p.start(cs[1], keys[0], byLock)
	p.queued(keys[0], 1)
	p.leave(cs[0])
	p.release(p.hold(cs[1], keys[1], byTry)) // by TryLock, and so not by waiting for a TTL
	p.release(waiter.served(0))
	ctx, cancel := p.within()
	defer cancel()
	if g, err := p.take(ctx, cs[0], p.key(), byLock); err == nil {
		g.unlocked = true
		p.errorf("Lock by %s, which has left, got a key", cs[0].name)
	} else if ctx.Err() != nil {
		p.errorf("Lock by %s, which has left, waited for %v", cs[0].name, p.o.Patience)
	}
}

func (p *probe) leaveOfWaiter() {
	cs, key := p.some(3), p.key()
	g := p.lock(cs[0], key)
	gone := p.start(cs[1], key, byLock)
	p.queued(key, 1)
	p.leave(cs[1])
	gone.end(0)
	if gone.err == nil {
		p.fatalf("%s left while it waited, and got the key", cs[1].name)
	}
	p.release(g)
	p.release(p.hold(cs[2], key, byTry)) // by TryLock, and so not by waiting for a TTL
}

// cutRounds is how often a holder is cut off, since what happens first then may be chance.
const cutRounds = 3

func (p *probe) lostIsTold() {
	for range cutRounds {
		cs, key := p.some(2), p.key()
		g := p.lock(cs[0], key)
		waiter := p.start(cs[1], key, byLock)
		p.queued(key, 1)
		done := g.lock.(Watched).Done()
		heal := p.cut(cs[0])
		waiter.end(p.o.TTL)
		select {
		case <-done:
		default:
			if waiter.err == nil {
				// Not wrongf: a timer that the machine lets fire late is enough for that.
				p.errorf("%s is cut off and hasn't heard that its lock is lost, and %s has the key", cs[0].name, cs[1].name)
			}
		}
		heal()
		p.release(waiter.served(0))
	}
}

func (p *probe) lostIsLost() {
	cs, key := p.some(3), p.key()
	g := p.lock(cs[0], key)
	waiter := p.start(cs[1], key, byLock)
	p.queued(key, 1)
	heal := p.cut(cs[0])
	next := waiter.served(p.o.TTL)
	heal()
	if p.unlock(p.ctx, g) == nil {
		p.errorf("Unlock by %s, whose lock went to %s meanwhile, returned no error", cs[0].name, cs[1].name)
	}
	p.held(next)
	_ = p.refused(cs[2], byTry, next)
	p.release(next)
}

func (p *probe) cutWaiter() {
	for _, d := range p.goneBefore() {
		cs, key := p.some(3), p.key()
		g := p.lock(cs[0], key)
		away := p.start(cs[1], key, byLock)
		p.queued(key, 1)
		behind := p.start(cs[2], key, byLock)
		p.queued(key, 2)
		heal := p.cut(cs[1])
		p.sleep(d)
		_ = p.unlock(p.ctx, g) // it may be lost by now, which is for outlives-ttl
		next := behind.served(p.o.TTL)
		heal()
		p.release(next)
		away.end(p.o.TTL)
		if away.err == nil {
			p.release(away.g)
		}
		p.release(p.lock(cs[0], key))
	}
}
