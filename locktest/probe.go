package locktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// mostFindings bounds what is told of one broken promise: a service that breaks one may do so at every turn.
const mostFindings = 8

// probe is the examination of one promise. It owns the clients, locks and calls under way of it, and gives all back at its end.
type probe struct {
	x       *exam
	o       Options
	promise Promise
	ctx     context.Context
	cancel  context.CancelFunc
	calls   sync.WaitGroup // into the service, as long as they aren't given up

	mu       sync.Mutex
	findings []string
	wrong    bool // one of them can't be due to a machine that is too busy
	clients  []*client
	grips    []*grip
	after    []func()      // called at the end
	late     time.Duration // how late the machine let a goroutine run, at worst
}

func newProbe(x *exam, promise Promise) *probe {
	p := &probe{x: x, o: x.o, promise: promise}
	p.ctx, p.cancel = context.WithCancel(x.ctx)
	return p
}

// run tries the promise, and cleans up.
func (p *probe) run() {
	pulse := make(chan time.Duration, 1)
	go p.pulse(pulse)
	p.together(1, func(int) { p.promise.probe(p) })
	p.cancel()
	p.late = <-pulse
	for _, f := range p.after {
		f()
	}
	p.calls.Wait()
	for _, g := range p.grips {
		if !g.unlocked && !g.c.gone {
			_ = p.unlock(p.x.ctx, g) // a probe that wants to know has unlocked by itself
		}
	}
	for _, c := range p.clients {
		// After a broken promise nobody knows what its clients have left behind.
		if c.gone || c.away || p.broken() {
			p.x.close(c)
		} else {
			p.x.idle = append(p.x.idle, c)
		}
	}
}

// pulse looks how late the machine lets a goroutine run, until the probe ends, and says so.
func (p *probe) pulse(worst chan<- time.Duration) {
	var late time.Duration
	step := p.o.TTL / 20
	tick := time.NewTimer(step)
	defer tick.Stop()
	for {
		due := time.Now().Add(step)
		select {
		case <-tick.C:
			late = max(late, time.Since(due))
			tick.Reset(step)
		case <-p.ctx.Done():
			worst <- max(late, time.Since(due)) // the machine may have stopped just now, and both be ready
			return
		}
	}
}

// verdict returns what was found, and whether a machine may be the reason that stops for so long that leases aren't renewed in time,
// and did stop. What a call finds that was given up, and comes back yet, is no part of it.
func (p *probe) verdict() (findings []string, excused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.findings), !p.wrong && p.late > p.o.TTL/10
}

// wrongf notes a finding that no machine excuses: two holders, tokens that fall, answers that can't be.
func (p *probe) wrongf(format string, args ...any) {
	p.errorf(format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = true
}

// errorf notes a finding: the promise is broken.
func (p *probe) errorf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch n := len(p.findings); {
	case n < mostFindings:
		p.findings = append(p.findings, fmt.Sprintf(format, args...))
	case n == mostFindings:
		p.findings = append(p.findings, "... and more")
	}
}

// fatalf notes a finding and ends the goroutine. Together, all that a probe starts, ends with the probe.
func (p *probe) fatalf(format string, args ...any) {
	p.errorf(format, args...)
	runtime.Goexit()
}

func (p *probe) broken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.findings) > 0
}

// together runs f n times at once and returns when all have ended, each by itself or by fatalf.
func (p *probe) together(n int, f func(i int)) {
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					p.wrongf("panic: %v\n%s", v, debug.Stack())
				}
			}()
			f(i)
		})
	}
	work.Wait()
}

// all is together for the middle of a probe: it goes on only if all has gone well.
func (p *probe) all(n int, f func(i int)) {
	p.together(n, f)
	if p.broken() {
		runtime.Goexit()
	}
}

// key returns a new key.
func (p *probe) key() string {
	return fmt.Sprintf("%s%s/%d", p.x.run, p.promise.Name, p.x.keys.Add(1))
}

// rng returns the random choices of the i-th of those that work together.
func (p *probe) rng(i int) *rand.Rand { return rand.New(rand.NewPCG(p.o.Seed, uint64(i))) }

// client returns a client that nobody else uses.
func (p *probe) client() *client {
	var c *client
	if n := len(p.x.idle); n > 0 {
		c, p.x.idle = p.x.idle[0], p.x.idle[1:]
	} else {
		ctx, cancel := context.WithTimeout(p.ctx, p.o.Patience)
		defer cancel()
		p.x.opened++
		answer := make(chan Client, 1)
		err := p.guard(ctx, "Client", func() error {
			c, err := p.x.s.Client(ctx)
			if err == nil {
				answer <- c
			}
			return err
		})
		if err != nil {
			p.fatalf("no client: %v", err)
		}
		c = &client{Client: <-answer, name: fmt.Sprintf("client %d", p.x.opened)}
	}
	p.clients = append(p.clients, c)
	return c
}

// crowd returns as many clients as the options say.
func (p *probe) crowd() []*client { return p.some(p.o.Clients) }

// some returns n clients.
func (p *probe) some(n int) []*client {
	cs := make([]*client, n)
	for i := range cs {
		cs[i] = p.client()
	}
	return cs
}

// within returns a context for something that has to happen now.
func (p *probe) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.ctx, p.o.Patience)
}

// ended returns a context that has ended.
func (p *probe) ended() context.Context {
	ctx, cancel := context.WithCancel(p.ctx)
	cancel()
	return ctx
}

// pause lets time pass: for a service that orders by clocks, and in a bubble, where it stands still as long as anyone can run.
func (p *probe) pause() { p.sleep(time.Millisecond) }

// sleep waits for a duration, or for the end of the examination.
func (p *probe) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.ctx.Done():
		p.fatalf("broken off: %v", context.Cause(p.ctx))
	}
}

// linger is the work of a holder: short as a rule, and now and then long enough for a word to cross the network and be answered.
func (p *probe) linger(r *rand.Rand) {
	longest := 200
	if r.IntN(8) == 0 {
		longest = 2000
	}
	p.sleep(time.Duration(r.IntN(longest)) * time.Microsecond)
}

// until waits for a condition, for no longer than Patience after the time that has to pass first.
func (p *probe) until(first time.Duration, what string, holds func() bool) {
	for end := time.Now().Add(first + p.o.Patience); !holds(); p.pause() {
		if time.Now().After(end) {
			p.fatalf("never came: %s", what)
		}
	}
}
