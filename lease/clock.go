package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// clock has the time of the call under way, and when the next timer of the voter is due.
type clock struct {
	now vote.Now
	due vote.Instant // no timer fires before this instant of the slow clock
}

// moveTo passes on to the time of a call. A voter's slow clock never goes back.
func (c *clock) moveTo(now vote.Now) {
	now.Slow = max(now.Slow, c.now.Slow)
	c.now = now
}

// at schedules a Tick at the instant i.
func (c *clock) at(i vote.Instant) {
	if i < c.due {
		c.due = i
	}
}

// isDue reports whether a timer may be due now.
func (c *clock) isDue() bool { return c.due <= c.now.Slow }
