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

// maxFindings bounds the findings reported for one broken promise: a service may break a promise
// at every turn.
const maxFindings = 8

// probe is the examination of one promise. The probe owns its clients, locks and pending calls, and
// gives all back at its end.
type probe struct {
	x       *suite
	o       Options
	promise Promise
	ctx     context.Context
	cancel  context.CancelFunc
	calls   sync.WaitGroup // calls into the service that haven't been abandoned

	mu          sync.Mutex
	findings    []string
	inexcusable bool // one of the findings can't be due to a busy machine
	clients     []*client
	locks       []*heldLock
	cleanups    []func()      // called at the end
	maxDelay    time.Duration // how late the machine let a goroutine run, at worst
}

func newProbe(x *suite, promise Promise) *probe {
	p := &probe{x: x, o: x.o, promise: promise}
	p.ctx, p.cancel = context.WithCancel(x.ctx)
	return p
}

// run tries the promise, and cleans up.
func (p *probe) run() {
	pulse := make(chan time.Duration, 1)
	go p.measureDelay(pulse)
	p.parallel(1, func(int) { p.promise.probe(p) })
	p.cancel()
	p.maxDelay = <-pulse
	for _, f := range p.cleanups {
		f()
	}
	p.calls.Wait()
	for _, g := range p.locks {
		if !g.unlocked && !g.client.stopped {
			_ = p.unlock(p.x.ctx, g) // a probe that cares about the error has unlocked by itself
		}
	}
	for _, c := range p.clients {
		// After a broken promise the clients may have left anything behind.
		if c.stopped || c.wasCut || p.broken() {
			p.x.close(c)
		} else {
			p.x.idle = append(p.x.idle, c)
		}
	}
}

// measureDelay measures how late the machine lets a goroutine run until the probe ends, and sends
// the worst delay.
func (p *probe) measureDelay(worst chan<- time.Duration) {
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
			// The machine may have paused just now, so both channels are ready.
			worst <- max(late, time.Since(due))
			return
		}
	}
}

// verdict returns the findings, and whether the machine may be to blame: the machine paused for so
// long that leases may not have been renewed in time, and no finding rules this excuse out. If an
// abandoned call returns later, its findings don't count.
func (p *probe) verdict() (findings []string, excused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.findings), !p.inexcusable && p.maxDelay > p.o.TTL/10
}

// inexcusablef notes a finding that no machine excuses: two holders, falling tokens, impossible
// answers.
func (p *probe) inexcusablef(format string, args ...any) {
	p.errorf(format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inexcusable = true
}

// errorf notes a finding: the promise is broken.
func (p *probe) errorf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch n := len(p.findings); {
	case n < maxFindings:
		p.findings = append(p.findings, fmt.Sprintf(format, args...))
	case n == maxFindings:
		p.findings = append(p.findings, "... and more")
	}
}

// fatalf notes a finding and ends the goroutine. Everything that a probe starts ends with the
// probe.
func (p *probe) fatalf(format string, args ...any) {
	p.errorf(format, args...)
	runtime.Goexit()
}

func (p *probe) broken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.findings) > 0
}

// parallel runs f n times at once and returns when all calls have ended, either normally or by
// fatalf.
func (p *probe) parallel(n int, f func(i int)) {
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					p.inexcusablef("panic: %v\n%s", v, debug.Stack())
				}
			}()
			f(i)
		})
	}
	work.Wait()
}

// mustParallel is parallel for the middle of a probe: the probe goes on only if nothing was found.
func (p *probe) mustParallel(n int, f func(i int)) {
	p.parallel(n, f)
	if p.broken() {
		runtime.Goexit()
	}
}

// key returns a new key.
func (p *probe) key() string {
	return fmt.Sprintf("%s%s/%d", p.x.keyPrefix, p.promise.Name, p.x.keys.Add(1))
}

// rng returns the random generator of the i-th of several concurrent workers.
func (p *probe) rng(i int) *rand.Rand { return rand.New(rand.NewPCG(p.o.Seed, uint64(i))) }

// client returns a client for the exclusive use of the probe.
func (p *probe) client() *client {
	var c *client
	if n := len(p.x.idle); n > 0 {
		c, p.x.idle = p.x.idle[0], p.x.idle[1:]
	} else {
		ctx, cancel := context.WithTimeout(p.ctx, p.o.Timeout)
		defer cancel()
		p.x.opened++
		answer := make(chan Client, 1)
		err := p.invoke(ctx, "Client", func() error {
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

// contenders returns the contenders: as many clients as the options say.
func (p *probe) contenders() []*client { return p.nClients(p.o.Clients) }

// nClients returns n clients.
func (p *probe) nClients(n int) []*client {
	cs := make([]*client, n)
	for i := range cs {
		cs[i] = p.client()
	}
	return cs
}

// timeoutContext returns a context for something that has to happen now.
func (p *probe) timeoutContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.ctx, p.o.Timeout)
}

// canceledContext returns a context that has ended.
func (p *probe) canceledContext() context.Context {
	ctx, cancel := context.WithCancel(p.ctx)
	cancel()
	return ctx
}

// pause lets time pass: for a service that orders by clocks, and in a bubble, where time stands
// still as long as any goroutine can run.
func (p *probe) pause() { p.sleep(time.Millisecond) }

// sleep waits for a duration, or for the end of the suite.
func (p *probe) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.ctx.Done():
		p.fatalf("broken off: %v", context.Cause(p.ctx))
	}
}

// simulateWork is the work of a holder: usually short, and now and then long enough for a round
// trip over the network.
func (p *probe) simulateWork(r *rand.Rand) {
	longest := 200
	if r.IntN(8) == 0 {
		longest = 2000
	}
	p.sleep(time.Duration(r.IntN(longest)) * time.Microsecond)
}

// eventually waits for a condition, for no longer than Timeout after the time that has to pass
// first.
func (p *probe) eventually(first time.Duration, what string, holds func() bool) {
	for end := time.Now().Add(first + p.o.Timeout); !holds(); p.pause() {
		if time.Now().After(end) {
			p.fatalf("it never happened: %s", what)
		}
	}
}
