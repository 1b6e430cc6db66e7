package lockmesh

import (
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
)

// clocks is all that the shell knows of time. Its methods may be called from any goroutine, and a reading that begins after another has
// ended is never earlier.
type clocks interface {
	// now reads all clocks of the node.
	now() vote.Now
	// fast reads only the clock by which holders measure.
	fast() vote.Instant
	// wall tells when the fast clock will show an instant, or when it did.
	wall(fast vote.Instant) time.Time
	// after calls f once d has passed, in a goroutine of its own, unless stop is called first. f may be called twice or a moment after
	// stop, so it must do no more than wake somebody.
	after(d time.Duration, f func()) (stop func())
}

// firstInstant is what a node's clocks show when it starts. Zero stays free to mean "not yet".
const firstInstant = vote.Instant(time.Second)

func newClocks(c clock.Clock) clocks {
	if c != nil {
		return newGivenClock(c)
	}
	return newSystemClock()
}

// peak keeps the largest number it has seen.
type peak struct{ v atomic.Int64 }

// of notes n and returns the largest number so far.
func (p *peak) of(n int64) int64 {
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
// Voters measure with Go's monotonic clock, which may stop while the machine sleeps. Holders measure with a clock that doesn't,
// where there is one (clock_linux.go, clock_other.go), and besides with the wall clock where that ran further. How much further is
// a running maximum, so a wall clock that steps back and forth is not counted twice, and what holders read never goes back.
type systemClock struct {
	start time.Time    // with its monotonic part
	awake sleeplessRef // what the clock that goes on in sleep showed at start
	ahead peak         // how much further the wall clock has run than that clock, in nanoseconds; never below zero

	asleep peak         // how much further the clock that goes on in sleep has run than the monotonic one, as far as is known
	looked atomic.Int64 // when that was looked at, by the monotonic clock
	apart  atomic.Int64 // how far the wall clock stood from the monotonic one then
}

const (
	// lookAfter is for how long the clock that goes on in sleep isn't read again: reading it is a call of the system, which costs as much as all the
	// rest of a reading several times over.
	lookAfter = time.Millisecond
	// leap is a change between the other two clocks after which it is read at once. Sleep of any length shows there, unless somebody sets the wall
	// clock back within that millisecond, by just as long.
	leap = 50 * time.Microsecond
)

func newSystemClock() *systemClock {
	// In this order a pause in between is taken for sleep, once and for all, which does no harm; in the other it would be taken off what is slept later.
	awake := readSleepless()
	c := &systemClock{start: time.Now(), awake: awake}
	c.looked.Store(int64(-lookAfter))
	return c
}

func (c *systemClock) read() (t time.Time, slow, fast time.Duration) {
	// The wall clock is read before the other: whatever happens in between makes it look less far ahead, never more,
	// so that a pause here can't push the fast clock ahead for ever.
	t = time.Now()
	slow = t.Sub(c.start)
	wall := time.Duration(t.UnixNano() - c.start.UnixNano())
	if apart := wall - slow; slow-time.Duration(c.looked.Load()) >= lookAfter || (apart-time.Duration(c.apart.Load())).Abs() > leap {
		c.look(apart)
	}
	return t, slow, c.fastest(slow+time.Duration(c.asleep.v.Load()), wall)
}

// look finds out how much further the clock that goes on in sleep has run. If it is held up each time that it tries, the next reading looks again.
func (c *systemClock) look(apart time.Duration) {
	const tries = 3
	for range tries {
		before := time.Since(c.start)
		awake := c.awake.since(before)
		after := time.Since(c.start)
		// Read before the other clock, this one is behind by what passes in between, never ahead: so sleep isn't seen where there was none. What it is behind by
		// is small, or it is read again.
		c.asleep.of(int64(awake - after))
		if after-before <= leap {
			c.looked.Store(int64(before))
			c.apart.Store(int64(apart))
			return
		}
	}
}

// fastest returns how much time has passed at most, by the clock that goes on in sleep and by the wall clock.
func (c *systemClock) fastest(awake, wall time.Duration) time.Duration {
	return awake + time.Duration(c.ahead.of(int64(wall-awake)))
}

func (c *systemClock) now() vote.Now {
	t, slow, fast := c.read()
	return vote.Now{Fast: firstInstant.Add(fast), Slow: firstInstant.Add(slow), Wall: vote.Micros(t.UnixMicro())}
}

func (c *systemClock) fast() vote.Instant {
	_, _, fast := c.read()
	return firstInstant.Add(fast)
}

func (c *systemClock) wall(at vote.Instant) time.Time {
	t, _, fast := c.read()
	return t.Add(at.Sub(firstInstant.Add(fast)))
}

func (c *systemClock) after(d time.Duration, f func()) func() {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// givenClock derives all readings from the one clock of the configuration, which may be a mock without a monotonic part.
type givenClock struct {
	clock clock.Clock
	start time.Time
	most  peak // a clock that is set back stands still until it has caught up

	// A clock that knows how much time has passed, however it was set, is read as systemClock reads the system's.
	steady world.SteadyClock // nil for any other
	began  vote.Instant
	ahead  peak
}

func newGivenClock(c clock.Clock) *givenClock {
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
		at := firstInstant.Add(time.Duration(c.most.of(int64(wall))))
		return t, at, at
	}
	passed := c.steady.Steady().Sub(c.began)
	slow = firstInstant.Add(passed)
	return t, slow, slow.Add(time.Duration(c.ahead.of(int64(wall - passed))))
}

func (c *givenClock) now() vote.Now {
	t, slow, fast := c.read()
	return vote.Now{Fast: fast, Slow: slow, Wall: vote.Micros(t.UnixMicro())}
}

func (c *givenClock) fast() vote.Instant {
	_, _, fast := c.read()
	return fast
}

func (c *givenClock) wall(at vote.Instant) time.Time {
	t, _, fast := c.read()
	return t.Add(at.Sub(fast))
}

// after makes a new timer each time, and none with a channel: a mock clock can block for ever on the channel of a timer that is due
// while another timer is being made.
func (c *givenClock) after(d time.Duration, f func()) func() {
	t := c.clock.AfterFunc(d, f)
	return func() { t.Stop() }
}
