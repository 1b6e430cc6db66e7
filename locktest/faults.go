package locktest

import (
	"sync"
)

// crash makes a client crash.
func (p *probe) crash(c *client) {
	ctx, cancel := p.timeoutContext()
	defer cancel()
	c.stopped = true
	if err := p.invoke(ctx, "Crash", c.Client.(Crasher).Crash); err != nil {
		p.fatalf("Crash of %s: %v", c.name, err)
	}
}

// leave makes a client leave in good order.
func (p *probe) leave(c *client) {
	ctx, cancel := p.timeoutContext()
	defer cancel()
	c.stopped = true
	if err := p.invoke(ctx, "Leave", func() error { return c.Client.(Leaver).Leave(ctx) }); err != nil {
		p.fatalf("Leave of %s: %v", c.name, err)
	}
}

// cut cuts a client off. heal, or else the end of the probe, restores the connection; heal may be
// called twice.
func (p *probe) cut(c *client) (heal func()) {
	c.wasCut = true
	heal, err := c.Client.(Cutter).Cut()
	if err != nil {
		p.fatalf("Cut of %s: %v", c.name, err)
	}
	heal = sync.OnceFunc(heal)
	p.cleanups = append(p.cleanups, heal)
	return heal
}

// stopMajority stops a majority of the servers, and spares the server of the first client. resume,
// or else the end of the probe, lets the servers run again; resume may be called twice.
func (p *probe) stopMajority(cs []*client) (resume func()) {
	for _, c := range cs {
		c.wasCut = true // how a client recovers from the loss of a majority is up to the service, too
	}
	resume, err := p.x.s.(Stopper).StopMajority(cs[0].Client)
	if err != nil {
		p.fatalf("StopMajority: %v", err)
	}
	resume = sync.OnceFunc(resume)
	p.cleanups = append(p.cleanups, resume)
	return resume
}
