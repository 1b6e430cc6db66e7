package locktest

var permitPromises = []Promise{
	{"permits-bound", "Of a semaphore's holders there are never more than it has permits.", needs(HasSemaphores), (*probe).permitsBound},
	{"permits-all", "All permits of a semaphore can be held at once, and one that is given back goes to a waiter.", needs(HasSemaphores), (*probe).permitsAll},
	{"permits-mismatch", "No permits, and a number other than that of those who hold some, is an error.", needs(HasSemaphores), (*probe).permitsMismatch},
	{"permits-crash", "When a holder dies, its permit is free a TTL later.", needs(HasSemaphores, HasCrash), (*probe).permitsCrash},
}

// permits is a number of permits that is neither one nor all.
const permits = 3

func (p *probe) permitsBound() { p.contend(p.crowd(), byPermit(permits-1)) }

func (p *probe) permitsAll() {
	cs, key := p.some(permits+1), p.key()
	for range 3 {
		held := make([]*grip, permits)
		for i := range held {
			m := byPermit(permits)
			if i == 1 {
				m = byTryPermit(permits)
			}
			held[i] = p.hold(cs[i], key, m)
		}
		last := cs[permits]
		_ = p.refused(last, byTryPermit(permits), held...)
		waiter := p.start(last, key, byPermit(permits))
		p.queued(key, 1)
		if !waiter.waits() {
			p.fatalf("Acquire by %s, while all permits are held, returned: %v", last.name, waiter.err)
		}
		p.release(held[1])
		held[1] = waiter.served(0)
		for _, g := range held {
			p.held(g)
		}
		for _, g := range held {
			p.release(g)
		}
	}
}

func (p *probe) permitsMismatch() {
	cs, key := p.some(2), p.key()
	g := p.hold(cs[0], key, byPermit(permits))
	for _, wrong := range []int{permits + 1, permits - 1, 1, 0, -1} {
		for _, m := range []mode{byPermit(wrong), byTryPermit(wrong)} {
			ctx, cancel := p.within()
			got, err := p.take(ctx, cs[1], key, m)
			if err == nil {
				_ = p.unlock(p.ctx, got)
				p.errorf("%s with %d permits got one, while another holds one of %d", m.name, wrong, permits)
			} else if ctx.Err() != nil {
				p.errorf("%s with %d permits waited for %v, while another holds one of %d", m.name, wrong, p.o.Patience, permits)
			}
			cancel()
		}
	}
	p.release(p.hold(cs[1], key, byTryPermit(permits)))
	p.release(g)
}

func (p *probe) permitsCrash() {
	cs, key := p.some(permits+1), p.key()
	var held []*grip
	for _, c := range cs[:permits] {
		held = append(held, p.hold(c, key, byPermit(permits)))
	}
	waiter := p.start(cs[permits], key, byPermit(permits))
	p.queued(key, 1)
	p.crash(cs[0])
	p.release(waiter.served(p.o.TTL))
	for _, g := range held[1:] {
		p.release(g)
	}
}
