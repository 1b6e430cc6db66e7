package locktest

var permitPromises = []Promise{
	{"permits-bound", "A semaphore never has more holders than permits.", requires(HasSemaphores), (*probe).permitsBound},
	{"permits-all", "All permits of a semaphore can be held at once, and a released permit goes to a waiter.", requires(HasSemaphores), (*probe).permitsAll},
	{"permits-mismatch", "Acquire with a number of permits below one, or different from the number used by the current holders, returns an error.", requires(HasSemaphores), (*probe).permitsMismatch},
	{"permits-crash", "After a holder crashes, its permit is free one TTL later.", requires(HasSemaphores, HasCrash), (*probe).permitsCrash},
}

// permits is neither a single permit nor as many permits as clients in a probe.
const permits = 3

func (p *probe) permitsBound() { p.contend(p.contenders(), acquireMode(permits-1)) }

func (p *probe) permitsAll() {
	cs, key := p.nClients(permits+1), p.key()
	for range 3 {
		held := make([]*heldLock, permits)
		for i := range held {
			m := acquireMode(permits)
			if i == 1 {
				m = tryAcquireMode(permits)
			}
			held[i] = p.mustAcquire(cs[i], key, m)
		}
		last := cs[permits]
		_ = p.mustRefuse(last, tryAcquireMode(permits), held...)
		waiter := p.startAcquire(last, key, acquireMode(permits))
		p.awaitQueued(key, 1)
		if !waiter.waiting() {
			p.fatalf("Acquire by %s, while all permits are held, returned: %v", last.name, waiter.err)
		}
		p.release(held[1])
		held[1] = waiter.mustAcquire(0)
		for _, g := range held {
			p.mustBeHeld(g)
		}
		for _, g := range held {
			p.release(g)
		}
	}
}

func (p *probe) permitsMismatch() {
	cs, key := p.nClients(2), p.key()
	g := p.mustAcquire(cs[0], key, acquireMode(permits))
	for _, wrong := range []int{permits + 1, permits - 1, 1, 0, -1} {
		for _, m := range []mode{acquireMode(wrong), tryAcquireMode(wrong)} {
			ctx, cancel := p.timeoutContext()
			got, err := p.acquire(ctx, cs[1], key, m)
			if err == nil {
				_ = p.unlock(p.ctx, got)
				p.errorf("%s with %d permits got one, while another holds one of %d", m.name, wrong, permits)
			} else if ctx.Err() != nil {
				p.errorf("%s with %d permits waited for %v, while another holds one of %d", m.name, wrong, p.o.Timeout, permits)
			}
			cancel()
		}
	}
	p.release(p.mustAcquire(cs[1], key, tryAcquireMode(permits)))
	p.release(g)
}

func (p *probe) permitsCrash() {
	cs, key := p.nClients(permits+1), p.key()
	var held []*heldLock
	for _, c := range cs[:permits] {
		held = append(held, p.mustAcquire(c, key, acquireMode(permits)))
	}
	waiter := p.startAcquire(cs[permits], key, acquireMode(permits))
	p.awaitQueued(key, 1)
	p.crash(cs[0])
	p.release(waiter.mustAcquire(p.o.TTL))
	for _, g := range held[1:] {
		p.release(g)
	}
}
