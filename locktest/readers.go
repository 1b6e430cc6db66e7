package locktest

import "sync/atomic"

var readerPromises = []Promise{
	{"readers-share", "Several readers hold a key at once, and a writer's Unlock admits all waiting readers.", requires(HasReaders), (*probe).readersShare},
	{"writer-alone", "While a writer holds a key, no reader and no other writer does.", requires(HasReaders), (*probe).writerAlone},
	{"readers-and-writers", "Under contention of readers and writers a writer is always the only holder.", requires(HasReaders), (*probe).readersAndWriters},
	{"writer-not-starved", "A writer gets the key although new readers keep arriving.", requires(HasReaders), (*probe).writerNotStarved},
	{"writer-gives-up", "A canceled writer does not block readers.", requires(HasReaders), (*probe).writerGivesUp},
	{"reader-tokens", "A writer has a larger token than all earlier readers, and a reader a larger token than all earlier writers.", requires(HasReaders, HasTokens), (*probe).readerTokens},
	{"reader-crash", "After a reader crashes, a waiting writer gets the key one TTL later.", requires(HasReaders, HasCrash), (*probe).readerCrash},
}

func (p *probe) readersShare() {
	cs, key := p.contenders(), p.key()
	g := p.lock(cs[0], key)
	var waiters []*pendingCall
	for _, c := range cs[1:] {
		waiters = append(waiters, p.startAcquire(c, key, rlockMode))
	}
	p.awaitQueued(key, len(waiters))
	p.release(g)
	var held []*heldLock
	for _, w := range waiters {
		held = append(held, w.mustAcquire(0)) // no reader releases the key before all have the key
	}
	held = append(held, p.mustAcquire(cs[0], key, tryRLockMode), p.mustAcquire(cs[1], key, rlockMode))
	for _, g := range held {
		p.release(g)
	}
}

func (p *probe) writerAlone() {
	cs, key := p.nClients(3), p.key()
	a, b := p.mustAcquire(cs[0], key, rlockMode), p.mustAcquire(cs[1], key, rlockMode)
	_ = p.mustRefuse(cs[2], tryLockMode, a, b)
	p.release(a)
	_ = p.mustRefuse(cs[2], tryLockMode, b)
	_ = p.mustRefuse(cs[0], tryLockMode, b)
	p.release(b)
	w := p.mustAcquire(cs[2], key, tryLockMode)
	_ = p.mustRefuse(cs[0], tryRLockMode, w)
	_ = p.mustRefuse(cs[1], tryLockMode, w)
	waiter := p.startAcquire(cs[0], key, rlockMode)
	p.awaitQueued(key, 1)
	if !waiter.waiting() {
		p.fatalf("RLock by %s, while another writes, returned: %v", cs[0].name, waiter.err)
	}
	p.release(w)
	p.release(waiter.mustAcquire(0))
}

func (p *probe) readersAndWriters() {
	cs, key, w := p.contenders(), p.key(), p.newObserver()
	p.mustParallel(len(cs), func(i int) {
		r := p.rng(i)
		for range p.o.Handovers / len(cs) {
			m := rlockMode
			if r.IntN(3) == 0 {
				m = lockMode
			}
			g := p.mustAcquire(cs[i], key, m)
			w.criticalSection(g, r)
			w.release(g)
		}
	})
	w.check()
}

func (p *probe) writerNotStarved() {
	cs, key := p.contenders(), p.key()
	var came atomic.Int64
	var served atomic.Bool
	p.mustParallel(len(cs), func(i int) {
		if i == 0 {
			defer served.Store(true)
			p.eventually(0, "a stream of readers", func() bool { return came.Load() > int64(len(cs)) || p.broken() })
			p.release(p.lock(cs[0], key))
			return
		}
		for !served.Load() {
			g := p.mustAcquire(cs[i], key, rlockMode)
			mine := came.Add(1)
			// Each reader stays until another reader has come, so the key always has a reader. If
			// no more readers come, the waiting writer keeps new readers out.
			for waited := 0; came.Load() == mine && !served.Load() && waited < 50; waited++ {
				p.pause()
			}
			p.release(g)
		}
	})
}

func (p *probe) writerGivesUp() {
	cs, key := p.nClients(3), p.key()
	g := p.mustAcquire(cs[0], key, rlockMode)
	writer := p.startAcquire(cs[1], key, lockMode)
	p.awaitQueued(key, 1)
	// The reader queues behind the writer, or joins the other reader at once.
	reader := p.startAcquire(cs[2], key, rlockMode)
	p.sleep(p.o.Settle)
	writer.cancel()
	writer.wait(0)
	if writer.err == nil {
		p.fatalf("%s got a key by Lock that another reads", cs[1].name)
	}
	p.mustBeHeld(g)
	p.release(reader.mustAcquire(0))
	p.release(p.mustAcquire(cs[1], key, tryRLockMode))
	p.release(g)
	p.release(p.mustAcquire(cs[1], key, lockMode))
}

func (p *probe) readerTokens() {
	cs, key := p.nClients(3), p.key()
	var last uint64
	for round := range 5 {
		a, b := p.mustAcquire(cs[0], key, rlockMode), p.mustAcquire(cs[1], key, rlockMode)
		for _, g := range []*heldLock{a, b} {
			if token := p.token(g); token <= last {
				p.inexcusablef("round %d: a reader has the token %d, and a writer before it had %d", round, token, last)
			}
		}
		readers := max(p.token(a), p.token(b))
		p.release(a)
		p.release(b)
		w := p.lock(cs[2], key)
		last = p.token(w)
		if last <= readers {
			p.inexcusablef("round %d: a writer has the token %d, and a reader before it had %d", round, last, readers)
		}
		p.release(w)
	}
}

func (p *probe) readerCrash() {
	cs, key := p.nClients(3), p.key()
	p.mustAcquire(cs[0], key, rlockMode)
	other := p.mustAcquire(cs[1], key, rlockMode)
	writer := p.startAcquire(cs[2], key, lockMode)
	p.awaitQueued(key, 1)
	p.crash(cs[0])
	p.release(other)
	p.release(writer.mustAcquire(p.o.TTL))
}
