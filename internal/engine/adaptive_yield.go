package engine

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	// manyCalls is how many calls must be under way for a yield to be judged by the queue
	// alone: with so many calls, each waits longer for the writes of the others than for a
	// scheduler. A write takes some 10 microseconds, and each caller sends a message to each of two
	// voters, so the writes of a crowd fill a millisecond.
	manyCalls = 64

	// yieldShare decides whether a yield to a crowd was worthwhile: at least one in yieldShare of
	// the calls under way must have produced an input since. The messages of these calls then share
	// writes. The duration of the yield doesn't count: on a busy machine the duration depends on
	// other processes.
	yieldShare = 16

	// yieldSlow is how long a yield may take without a crowd. As a rule a yield takes
	// microseconds. In a process that computes on many goroutines, a yield takes a time slice for
	// each of them, and all messages of the node wait that long.
	yieldSlow = time.Millisecond

	// yieldPerInput is the additional time allowed for each input that arrived during the yield:
	// about the time for a write of its own.
	yieldPerInput = 10 * time.Microsecond

	// maxYield is the limit for a yield to a few callers, whatever arrived, since a refresh
	// waits as well.
	maxYield = 20 * time.Millisecond

	// After a yield that wasn't worthwhile, the loop doesn't yield for yieldPauseMin, doubled
	// with each such yield in a row, up to yieldPauseMax. The pause begins short since the
	// machine may just have had other work. The maximum is short since each caller's messages are a
	// separate write meanwhile: a process that computes all the time loses a hundredth of its
	// latency to a slice of 10 ms in each second. (With a maximum of a minute, a thousand callers
	// on a busy machine paid three times as much for a lock.)
	yieldPauseMin, yieldPauseMax = 2 * time.Millisecond, time.Second
)

// adaptiveYield is the adaptive yield for write coalescing: it decides whether the loop's owner
// lets other goroutines run before writing, so that their messages share the same writes. The
// caller passes times and queue lengths; the adaptive yield reads no clock.
type adaptiveYield struct {
	notBefore  vote.Instant // no yield before this instant, except to a crowd
	pause      time.Duration
	manyPaused bool // the last yield to a crowd was nearly useless: after applies to crowds, too
}

// due reports whether the loop may yield, with the given number of calls under way.
func (y *adaptiveYield) due(now vote.Instant, underWay int) bool {
	return now >= y.notBefore || underWay >= manyCalls && !y.manyPaused
}

// record records a yield: the time since the round began, the start of the round, the number of
// calls under way, and the number of inputs that arrived.
func (y *adaptiveYield) record(took time.Duration, began vote.Instant, underWay, came int) {
	if underWay >= manyCalls {
		y.manyPaused = came*yieldShare < underWay
		if !y.manyPaused {
			y.pause = 0
			return
		}
	}
	if took < min(yieldSlow+time.Duration(came)*yieldPerInput, maxYield) {
		y.pause = 0
		return
	}
	y.pause = min(max(2*y.pause, yieldPauseMin), yieldPauseMax)
	y.notBefore = began.Add(took + y.pause)
}
