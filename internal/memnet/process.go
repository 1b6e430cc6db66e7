package memnet

import (
	"time"

	"github.com/benbjohnson/clock"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// Process is where one node lives, from its start to its end. It can be stopped as by SIGSTOP.
type Process struct {
	net   *Network
	clock *Clock

	// Guarded by net.mu.
	paused bool
	dead   bool // nothing that it sends leaves it any more
}

// Start returns a new process. It runs until somebody says otherwise; it has no goroutine of its own.
func (n *Network) Start() *Process {
	p := &Process{net: n}
	p.clock = &Clock{Clock: clock.New(), process: p, start: time.Now()}
	return p
}

// World is what the process's node joins. Its clock must be the process's.
func (p *Process) World() world.World {
	return world.World{
		State:  p.openState,
		Listen: func(c transport.Config) (world.Links, error) { return p.listen(c) },
		Gossip: func(l world.Links, c member.Config) (member.Group, error) { return l.(*port).joinGossip(c), nil },
	}
}

// Clock returns the process's clock.
func (p *Process) Clock() *Clock { return p.clock }

// Pause stops the process. Whoever in it reads the clock, sends or dials waits until Resume, timers don't fire, and nothing comes in. Other
// goroutines can't be held up: they go on until they do one of these.
func (p *Process) Pause() { p.net.change(func() { p.paused = true }) }

// Resume lets the process go on. Its clock then shows the time that has passed, timers that are due fire, and what has come meanwhile is taken in.
func (p *Process) Resume() { p.net.change(func() { p.paused = false }) }

// Kill ends the process for the others: from now on nothing leaves it. Its node is still to be closed, which the others see as the end of
// its connections. If it was paused it goes on, so that this can be done.
func (p *Process) Kill() { p.net.change(func() { p.paused, p.dead = false, true }) }

// lock waits while the process is paused, and returns with net.mu held.
func (p *Process) lock() { p.net.await(nil, func() bool { return !p.paused }) }

// Clock is the clock of one process. It runs as all others do; only what it shows may be off. A node reads Now and Steady and sets timers by
// AfterFunc, and nothing else of the embedded clock.
type Clock struct {
	clock.Clock
	process *Process
	start   time.Time
	ahead   time.Duration // guarded by process.net.mu
}

var _ world.SteadyClock = (*Clock)(nil)

// Set sets the clock to the true time and as much more; less, if it is negative. No timer notices.
func (c *Clock) Set(ahead time.Duration) { c.process.net.change(func() { c.ahead = ahead }) }

// Now returns what the clock shows.
func (c *Clock) Now() time.Time {
	c.process.lock()
	defer c.process.net.mu.Unlock()
	return c.Clock.Now().Add(c.ahead)
}

// Steady returns how much time has passed since the process was started, however the clock was set.
func (c *Clock) Steady() vote.Instant {
	c.process.lock()
	defer c.process.net.mu.Unlock()
	return vote.Instant(time.Since(c.start))
}

// AfterFunc calls f in a goroutine of its own, once d has passed and the process isn't paused.
func (c *Clock) AfterFunc(d time.Duration, f func()) *clock.Timer {
	return c.Clock.AfterFunc(d, func() {
		c.process.lock()
		c.process.net.mu.Unlock()
		f()
	})
}
