// Package clock reads the clocks by which a node measures. It is part of lockmesh's implementation,
// without a compatibility promise.
package clock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	benbjohnson "github.com/benbjohnson/clock"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/wakeup"
	"github.com/lockmesh/lockmesh/internal/world"
)

// Clocks are the clocks of one node. The methods may be called from any goroutine. A reading that
// begins after another reading has ended is never earlier.
type Clocks interface {
	// Now reads all clocks of the node.
	Now() vote.Now
	// Fast reads only the fast clock, by which holders measure.
	Fast() vote.Instant
	// Wall returns the wall-clock time at which the fast clock shows, or showed, an instant.
	Wall(fast vote.Instant) time.Time
	// After calls f in a goroutine of its own once d has passed, unless stop is called first. f may
	// be called twice, or a moment after stop, so f must do no more than wake a goroutine.
	After(d time.Duration, f func()) (stop func())
}

// Start is the reading of a node's clocks at its start. Zero stays free to mean "not yet".
const Start = vote.Instant(time.Second)

// New returns clocks that begin at [Start]. They read the given clock; if c is nil, the clocks of
// the operating system.
func New(c benbjohnson.Clock) Clocks {
	if c != nil {
		return newGivenClock(c)
	}
	return newSystemClock()
}

// Sleep waits until d has passed, wake receives a value or ctx ends.
func Sleep(ctx context.Context, c Clocks, d time.Duration, wake <-chan struct{}) {
	over := make(chan struct{}, 1)
	stop := c.After(d, func() { wakeup.Send(over) })
	defer stop()
	select {
	case <-over:
	case <-wake:
	case <-ctx.Done():
	}
}

// runningMax keeps the largest number that it has been given.
type runningMax struct{ v atomic.Int64 }

// update takes n into account, and returns the largest number so far.
func (p *runningMax) update(n int64) int64 {
	for {
		old := p.v.Load()
		if n <= old {
			return old
		}
		if p.v.CompareAndSwap(old, n) {
			return n
		}
	}
}

// systemClock reads the clocks of the operating system.
//
// Voters measure with Go's monotonic clock, which may stop while the machine sleeps. Holders
// measure with a clock that doesn't stop, where the system has one (sleepless_read.go,
// sleepless_other.go), and also with the wall clock where the wall clock has run further. The lead
// of the wall clock is a running maximum, so a wall clock that steps back and forth isn't counted
// twice, and the holders' reading never goes back.
//
// A running maximum hides as much of a sleep as the wall clock has fallen behind before, by a step
// or by the slow corrections of NTP. So where the wall clock alone shows sleep, each sudden rise of
// its lead counts as sleep: a step forth that follows a step back ends leases early.
type systemClock struct {
	start time.Time    // with the monotonic part
	awake sleeplessRef // the reading of the sleepless clock at start
	// ahead is the lead of the wall clock over the sleepless clock, in ns; never negative.
	ahead runningMax
	// rises is nil where the system has a sleepless clock.
	rises *rises

	asleep     runningMax   // known lead of the sleepless clock over the monotonic clock, in ns
	measuredAt atomic.Int64 // when asleep was last measured, by the monotonic clock
	wallLead   atomic.Int64 // the lead of the wall clock over the monotonic clock at that time
}

const (
	// measureEvery is how long the sleepless clock isn't read again: reading it takes a system
	// call, which costs several times as much as the rest of a reading.
	measureEvery = time.Millisecond
	// jumpThreshold is a change between the other two clocks after which the sleepless clock is
	// read at once. A sleep of any length causes such a change, unless the wall clock is set back
	// within the same millisecond by just as long.
	jumpThreshold = 50 * time.Microsecond
	// riseLeast is how far the lead of the wall clock must rise between two readings to count as
	// sleep: further than NTP's corrections move the wall clock meanwhile.
	riseLeast = 100 * time.Millisecond
)

// rises adds the sudden rises of the wall clock's lead over the monotonic clock.
type rises struct {
	mu    sync.Mutex
	awake time.Duration // the newest reading
	lead  time.Duration // at that reading
	total time.Duration
}

// update takes a reading into account, and returns the sum of all rises so far. A reading that
// comes late, after a newer reading, shows no rise.
func (r *rises) update(awake, lead time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if awake < r.awake {
		return r.total
	}
	if rise := lead - r.lead; rise > riseLeast {
		r.total += rise
	}
	r.awake, r.lead = awake, lead
	return r.total
}

func newSystemClock() *systemClock {
	// In this order, a pause between the two readings counts as sleep, once, which is harmless. In
	// the other order, the pause would be subtracted from later sleep.
	awake := readSleepless()
	c := &systemClock{start: time.Now(), awake: awake}
	c.measuredAt.Store(int64(-measureEvery))
	if !awake.exists() {
		c.rises = &rises{}
	}
	return c
}

func (c *systemClock) read() (t time.Time, slow, fast time.Duration) {
	// The wall clock is read before the sleepless clock: a pause between the readings makes the
	// wall clock look less far ahead, never more, so a pause can't advance the fast clock
	// permanently.
	t = time.Now()
	slow = t.Sub(c.start)
	wall := time.Duration(t.UnixNano() - c.start.UnixNano())
	if apart := wall - slow; slow-time.Duration(c.measuredAt.Load()) >= measureEvery || (apart-time.Duration(c.wallLead.Load())).Abs() > jumpThreshold {
		c.measureSleep(apart)
	}
	return t, slow, c.fastest(slow+time.Duration(c.asleep.v.Load()), wall)
}

// measureSleep measures the lead of the sleepless clock over the monotonic clock. If a pause
// disturbs every try, the next reading measures again.
func (c *systemClock) measureSleep(apart time.Duration) {
	const tries = 3
	for range tries {
		before := time.Since(c.start)
		awake := c.awake.since(before)
		after := time.Since(c.start)
		// The sleepless clock is read before the monotonic clock, so its reading is behind by the
		// time between the two, never ahead: no sleep is seen where there was none. The error is
		// small, or the reading is repeated.
		c.asleep.update(int64(awake - after))
		if after-before <= jumpThreshold {
			c.measuredAt.Store(int64(before))
			c.wallLead.Store(int64(apart))
			return
		}
	}
}

// fastest returns an upper bound of the time that has passed, by the sleepless clock and by the
// wall clock.
func (c *systemClock) fastest(awake, wall time.Duration) time.Duration {
	lead := wall - awake
	ahead := c.ahead.update(int64(lead))
	if c.rises != nil {
		ahead = c.ahead.update(int64(c.rises.update(awake, lead)))
	}
	return awake + time.Duration(ahead)
}

func (c *systemClock) Now() vote.Now {
	t, slow, fast := c.read()
	return vote.Now{Fast: Start.Add(fast), Slow: Start.Add(slow), Wall: vote.Micros(t.UnixMicro())}
}

func (c *systemClock) Fast() vote.Instant {
	_, _, fast := c.read()
	return Start.Add(fast)
}

func (c *systemClock) Wall(at vote.Instant) time.Time {
	t, _, fast := c.read()
	return t.Add(at.Sub(Start.Add(fast)))
}

func (c *systemClock) After(d time.Duration, f func()) func() {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// givenClock derives all readings from the configured clock, which may be a mock without a
// monotonic part.
type givenClock struct {
	clock benbjohnson.Clock
	start time.Time
	most  runningMax // if the clock is set back, the reading stands still until the clock has caught up

	// A SteadyClock measures the elapsed time however the clock was set; it is read as systemClock
	// reads the clocks of the system.
	steady world.SteadyClock // nil for any other clock
	began  vote.Instant
	ahead  runningMax
}

func newGivenClock(c benbjohnson.Clock) *givenClock {
	g := &givenClock{clock: c, start: c.Now()}
	if s, ok := c.(world.SteadyClock); ok {
		g.steady, g.began = s, s.Steady()
	}
	return g
}

func (c *givenClock) read() (t time.Time, slow, fast vote.Instant) {
	t = c.clock.Now()
	wall := t.Sub(c.start)
	if c.steady == nil {
		at := Start.Add(time.Duration(c.most.update(int64(wall))))
		return t, at, at
	}
	passed := c.steady.Steady().Sub(c.began)
	slow = Start.Add(passed)
	return t, slow, slow.Add(time.Duration(c.ahead.update(int64(wall - passed))))
}

func (c *givenClock) Now() vote.Now {
	t, slow, fast := c.read()
	return vote.Now{Fast: fast, Slow: slow, Wall: vote.Micros(t.UnixMicro())}
}

func (c *givenClock) Fast() vote.Instant {
	_, _, fast := c.read()
	return fast
}

func (c *givenClock) Wall(at vote.Instant) time.Time {
	t, _, fast := c.read()
	return t.Add(at.Sub(fast))
}

// After makes a new timer for each call, and none with a channel: a mock clock can block forever on
// the channel of a timer that is due while another timer is being made.
func (c *givenClock) After(d time.Duration, f func()) func() {
	t := c.clock.AfterFunc(d, f)
	return func() { t.Stop() }
}
