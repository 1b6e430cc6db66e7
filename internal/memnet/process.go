package memnet

import (
	"context"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// Process is the process of one node, from start to end. A process can be paused as by SIGSTOP.
type Process struct {
	net   *Network
	clock *Clock

	// Guarded by net.mu.
	paused bool
	dead   bool // no message leaves the process any more
	// seenUntil is until when gossip sees a dead process.
	seenUntil time.Time
}

// Start returns a new process. The process runs until it is paused or killed, and has no goroutine
// of its own.
func (n *Network) Start() *Process {
	p := &Process{net: n}
	p.clock = &Clock{Clock: clock.New(), process: p, start: time.Now()}
	return p
}

// World returns the world for the process's node to join. The node's clock must be the process's
// clock.
func (p *Process) World() world.World {
	return world.World{
		State:  p.openState,
		Listen: func(_ context.Context, c transport.Config) (world.Links, error) { return p.listen(c) },
		Gossip: func(l world.Links, c member.Config) (member.Group, error) { return l.(*port).joinGossip(c), nil },
	}
}

// Clock returns the process's clock.
func (p *Process) Clock() *Clock { return p.clock }

// Pause stops the process. A goroutine of the process that reads the clock, sends or dials waits
// until Resume; timers don't fire, and nothing is received. A goroutine that does none of these
// can't be stopped, and goes on until it does.
func (p *Process) Pause() { p.net.change(func() { p.paused = true }) }

// Resume lets the process go on. The clock then shows the elapsed time, due timers fire, and
// messages received meanwhile are delivered.
func (p *Process) Resume() { p.net.change(func() { p.paused = false }) }

// Kill ends the process for the others: from now on no message leaves the process. The process's
// node must still be closed; the others see the closing as the end of its connections. A paused
// process goes on, so that the node can be closed.
func (p *Process) Kill() {
	p.net.change(func() {
		p.paused, p.dead = false, true
		if d := p.net.slowness; d > 0 {
			p.seenUntil = time.Now().Add(d)
			time.AfterFunc(d, func() { p.net.change(func() {}) })
		}
	})
}

// isSeen reports whether gossip still sees the process, which was killed; net.mu is held.
func (p *Process) isSeen() bool { return p.dead && time.Now().Before(p.seenUntil) }

// lock waits while the process is paused, and returns with net.mu held.
func (p *Process) lock() { p.net.await(nil, func() bool { return !p.paused }) }

// Clock is the clock of one process. The clock runs at the common rate; only its reading may be
// off. A node reads Now and Steady and sets timers by AfterFunc, and uses nothing else of the
// embedded clock.
type Clock struct {
	clock.Clock
	process *Process
	start   time.Time
	ahead   time.Duration // guarded by process.net.mu
}

var _ world.SteadyClock = (*Clock)(nil)

// Set sets the clock ahead of the true time; behind, if ahead is negative. Timers are not affected.
func (c *Clock) Set(ahead time.Duration) { c.process.net.change(func() { c.ahead = ahead }) }

// Now returns the reading of the clock.
func (c *Clock) Now() time.Time {
	c.process.lock()
	defer c.process.net.mu.Unlock()
	return c.Clock.Now().Add(c.ahead)
}

// Steady returns the time since the process was started, however the clock was set.
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
