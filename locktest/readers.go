package locktest

import "sync/atomic"

var readerPromises = []Promise{
	{"readers-share", "Readers hold a key together, and a writer's Unlock lets all that wait in.", needs(HasReaders), (*probe).readersShare},
	{"writer-alone", "A writer holds a key without readers or other writers beside it.", needs(HasReaders), (*probe).writerAlone},
	{"readers-and-writers", "However readers and writers contend, no writer ever holds a key beside anyone.", needs(HasReaders), (*probe).readersAndWriters},
	{"writer-not-starved", "A writer has its turn though readers come all the time.", needs(HasReaders), (*probe).writerNotStarved},
	{"writer-gives-up", "A writer that gives up waiting doesn't keep readers from each other.", needs(HasReaders), (*probe).writerGivesUp},
	{"reader-tokens", "A writer has a larger token than all readers before it, and a reader than all writers.", needs(HasReaders, HasTokens), (*probe).readerTokens},
	{"reader-crash", "When a reader dies, a writer has its turn a TTL later.", needs(HasReaders, HasCrash), (*probe).readerCrash},
}

func (p *probe) readersShare() {
	cs, key := p.crowd(), p.key()
	g := p.lock(cs[0], key)
	var waiters []*pending
	for _, c := range cs[1:] {
		waiters = append(waiters, p.start(c, key, byRead))
	}
	p.queued(key, len(waiters))
	p.release(g)
	var held []*grip
	for _, w := range waiters {
		held = append(held, w.served(0)) // none of them goes before all have come
	}
	held = append(held, p.hold(cs[0], key, byTryRead), p.hold(cs[1], key, byRead))
	for _, g := range held {
		p.release(g)
	}
}

func (p *probe) writerAlone() {
	cs, key := p.some(3), p.key()
	a, b := p.hold(cs[0], key, byRead), p.hold(cs[1], key, byRead)
	_ = p.refused(cs[2], byTry, a, b)
	p.release(a)
	_ = p.refused(cs[2], byTry, b)
	_ = p.refused(cs[0], byTry, b)
	p.release(b)
	w := p.hold(cs[2], key, byTry)
	_ = p.refused(cs[0], byTryRead, w)
	_ = p.refused(cs[1], byTry, w)
	waiter := p.start(cs[0], key, byRead)
	p.queued(key, 1)
	if !waiter.waits() {
		p.fatalf("RLock by %s, while another writes, returned: %v", cs[0].name, waiter.err)
	}
	p.release(w)
	p.release(waiter.served(0))
}

func (p *probe) readersAndWriters() {
	cs, key, w := p.crowd(), p.key(), p.witness()
	p.all(len(cs), func(i int) {
		r := p.rng(i)
		for range p.o.Turns / len(cs) {
			m := byRead
			if r.IntN(3) == 0 {
				m = byLock
			}
			g := p.hold(cs[i], key, m)
			w.turn(g, r)
			w.release(g)
		}
	})
	w.judge()
}

func (p *probe) writerNotStarved() {
	cs, key := p.crowd(), p.key()
	var came atomic.Int64
	var served atomic.Bool
	p.all(len(cs), func(i int) {
		if i == 0 {
			defer served.Store(true)
			p.until(0, "a stream of readers", func() bool { return came.Load() > int64(len(cs)) || p.broken() })
			p.release(p.lock(cs[0], key))
			return
		}
		for !served.Load() {
			g := p.hold(cs[i], key, byRead)
			mine := came.Add(1)
			// Each stays until another has come, so that one always reads; unless no more come, which is because of the writer.
			for waited := 0; came.Load() == mine && !served.Load() && waited < 50; waited++ {
				p.pause()
			}
			p.release(g)
		}
	})
}

func (p *probe) writerGivesUp() {
	cs, key := p.some(3), p.key()
	g := p.hold(cs[0], key, byRead)
	writer := p.start(cs[1], key, byLock)
	p.queued(key, 1)
	reader := p.start(cs[2], key, byRead) // behind the writer, or beside the other reader at once
	p.sleep(p.o.Settle)
	writer.cancel()
	writer.end(0)
	if writer.err == nil {
		p.fatalf("%s got a key by Lock that another reads", cs[1].name)
	}
	p.held(g)
	p.release(reader.served(0))
	p.release(p.hold(cs[1], key, byTryRead))
	p.release(g)
	p.release(p.hold(cs[1], key, byLock))
}

func (p *probe) readerTokens() {
	cs, key := p.some(3), p.key()
	var last uint64
	for round := range 5 {
		a, b := p.hold(cs[0], key, byRead), p.hold(cs[1], key, byRead)
		for _, g := range []*grip{a, b} {
			if token := p.token(g); token <= last {
				p.wrongf("round %d: a reader has the token %d, and a writer before it had %d", round, token, last)
			}
		}
		readers := max(p.token(a), p.token(b))
		p.release(a)
		p.release(b)
		w := p.lock(cs[2], key)
		last = p.token(w)
		if last <= readers {
			p.wrongf("round %d: a writer has the token %d, and a reader before it had %d", round, last, readers)
		}
		p.release(w)
	}
}

func (p *probe) readerCrash() {
	cs, key := p.some(3), p.key()
	p.hold(cs[0], key, byRead)
	other := p.hold(cs[1], key, byRead)
	writer := p.start(cs[2], key, byLock)
	p.queued(key, 1)
	p.crash(cs[0])
	p.release(other)
	p.release(writer.served(p.o.TTL))
}
