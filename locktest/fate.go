package locktest

import (
	"sync"
)

// crash lets a client die.
func (p *probe) crash(c *client) {
	ctx, cancel := p.within()
	defer cancel()
	c.gone = true
	if err := p.guard(ctx, "Crash", c.Client.(Crasher).Crash); err != nil {
		p.fatalf("Crash of %s: %v", c.name, err)
	}
}

// leave lets a client end in good order.
func (p *probe) leave(c *client) {
	ctx, cancel := p.within()
	defer cancel()
	c.gone = true
	if err := p.guard(ctx, "Leave", func() error { return c.Client.(Leaver).Leave(ctx) }); err != nil {
		p.fatalf("Leave of %s: %v", c.name, err)
	}
}

// cut cuts a client off; heal, which may be called twice, ends that, and so does the end of the probe.
func (p *probe) cut(c *client) (heal func()) {
	c.away = true
	heal, err := c.Client.(Cutter).Cut()
	if err != nil {
		p.fatalf("Cut of %s: %v", c.name, err)
	}
	heal = sync.OnceFunc(heal)
	p.after = append(p.after, heal)
	return heal
}
