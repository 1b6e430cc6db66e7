package lockmesh

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	// courtesySlow is how long it may take until a goroutine is back that has let others run first. As a rule it takes microseconds. In a process that computes on
	// many goroutines it takes a slice of time for each of them, and everything that the node has to say waits that long.
	courtesySlow = time.Millisecond

	// courtesyWorth is how much longer it may take for each input that came meanwhile: about as long as a write of its own would take. So a thousand callers of
	// ours on one processor aren't taken for a process that computes.
	courtesyWorth = 10 * time.Microsecond

	// courtesyMost is what is too long whatever came, since a refresh waits as well.
	courtesyMost = 20 * time.Millisecond

	// After a courtesy that took too long there is none for courtesyPauseMin, which doubles with each in a row, up to courtesyPauseMax. It begins small since the machine may just
	// have had something else to do: while there is none, each caller's words are a write of their own, and a lock costs several times as much.
	courtesyPauseMin, courtesyPauseMax = 2 * time.Millisecond, time.Minute
)

// courtesy decides whether whoever has the turn lets other goroutines run before it writes, so that what they have to say goes into the same writes. It is
// told of times, and looks at no clock.
type courtesy struct {
	after vote.Instant // none before
	pause time.Duration
}

// due reports whether others may be let run first.
func (c *courtesy) due(now vote.Instant) bool { return now >= c.after }

// shown notes that they were, for how long since a round began, and how many inputs came of it.
func (c *courtesy) shown(took time.Duration, began vote.Instant, came int) {
	if took < min(courtesySlow+time.Duration(came)*courtesyWorth, courtesyMost) {
		c.pause = 0
		return
	}
	c.pause = min(max(2*c.pause, courtesyPauseMin), courtesyPauseMax)
	c.after = began.Add(took + c.pause)
}
