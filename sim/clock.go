package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/check"
)

// Moment is a point in world time.
type Moment = check.Moment

// never is later than every moment of a run.
const never = check.Never

// epoch is the correct wall-clock time at the start of a world: 2025-01-01 00:00 UTC, in
// nanoseconds of the Unix epoch.
const epoch = 1_735_689_600_000_000_000

// million is the denominator of rates, given in parts per million.
const million = 1_000_000

// MaxPPM is the largest error of a clock's rate that the protocol allows, in parts per million;
// MaxPPM equals vote.RhoPerMille.
const MaxPPM = vote.RhoPerMille * 1000

// clock holds the clocks of one machine. All readings advance at one rate, since they share one
// crystal: the fast and the slow clock start anywhere, the wall clock may be wrong and may be
// stepped, and the slow clock stands still while the machine is suspended. Readings are whole
// nanoseconds, computed without floating point, so that a seed means the same on every platform.
type clock struct {
	ppm   int64  // how far the rate is from 1, in parts per million
	since Moment // when the values below were true
	fast  vote.Instant
	slow  vote.Instant
	wall  int64 // nanoseconds of the Unix epoch

	suspended bool // the slow clock stands still
	// all clocks stand still: a virtual machine is paused, and no clock shows the pause
	frozen bool
}

// elapsed returns how far the machine's clocks advance in world time d.
func (c *clock) elapsed(d Moment) int64 {
	if c.frozen {
		return 0
	}
	return int64(d) + int64(d)*c.ppm/million
}

// duration returns the shortest world time in which the machine's clocks advance by x.
func (c *clock) duration(x int64) Moment {
	if x <= 0 {
		return 0
	}
	if c.frozen {
		return never
	}
	den := million + c.ppm
	d := Moment(x/den*million + x%den*million/den)
	for c.elapsed(d) < x {
		d++
	}
	for d > 0 && c.elapsed(d-1) >= x {
		d--
	}
	return d
}

// at returns the readings at a moment no earlier than the clock's last change.
func (c *clock) at(g Moment) vote.Now {
	e := c.elapsed(g - c.since)
	now := vote.Now{Fast: c.fast + vote.Instant(e), Slow: c.slow, Wall: vote.Micros((c.wall + e) / 1000)}
	if !c.suspended {
		now.Slow += vote.Instant(e)
	}
	return now
}

// fastAt returns the reading of the fast clock alone.
func (c *clock) fastAt(g Moment) vote.Instant { return c.fast + vote.Instant(c.elapsed(g-c.since)) }

// slowAt returns the reading of the slow clock alone.
func (c *clock) slowAt(g Moment) vote.Instant {
	if c.suspended {
		return c.slow
	}
	return c.slow + vote.Instant(c.elapsed(g-c.since))
}

// whenFast returns the first moment at which the fast clock shows i, provided the clock doesn't
// change. For an instant in the past the result is only approximate.
func (c *clock) whenFast(i vote.Instant) Moment { return c.when(int64(i - c.fast)) }

// whenSlow is the counterpart of whenFast for the slow clock. It returns never for a future instant
// while the machine is suspended.
func (c *clock) whenSlow(i vote.Instant) Moment {
	if c.suspended && i > c.slow {
		return never
	}
	return c.when(int64(i - c.slow))
}

func (c *clock) when(x int64) Moment {
	d := c.duration(x)
	if d >= never-c.since {
		return never
	}
	return c.since + d
}

// rebase makes g the base moment of the readings, so that a later change leaves earlier readings
// intact.
func (c *clock) rebase(g Moment) {
	e := c.elapsed(g - c.since)
	c.fast += vote.Instant(e)
	if !c.suspended {
		c.slow += vote.Instant(e)
	}
	c.wall += e
	c.since = g
}

// retune changes the rate.
func (c *clock) retune(g Moment, ppm int64) { c.rebase(g); c.ppm = ppm }

// step moves the wall clock.
func (c *clock) step(g Moment, by time.Duration) { c.rebase(g); c.wall += int64(by) }

// suspend stops the slow clock until resume.
func (c *clock) suspend(g Moment) { c.rebase(g); c.suspended = true }

// freeze stops all clocks until resume.
func (c *clock) freeze(g Moment) { c.rebase(g); c.frozen = true }

// resume ends suspend and freeze.
func (c *clock) resume(g Moment) { c.rebase(g); c.suspended, c.frozen = false, false }
