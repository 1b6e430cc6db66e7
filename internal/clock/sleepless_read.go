//go:build linux || darwin

package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleeplessRef is a reading of sleeplessClock, a clock that continues while the machine is
// suspended. Go's monotonic clock stops then, and a holder that measured with the monotonic clock
// would believe in an expired lease after waking.
type sleeplessRef struct {
	at time.Duration
	ok bool // false on Linux kernels before 2.6.39, and where a sandbox forbids the clock
}

func readSleepless() sleeplessRef {
	at, ok := sleeplessTime()
	return sleeplessRef{at, ok}
}

// exists reports whether the system has a clock that continues while the machine is suspended.
func (r sleeplessRef) exists() bool { return r.ok }

// since returns the time since the reading, including time asleep. If the clock can't be read,
// since returns the given time of the monotonic clock.
func (r sleeplessRef) since(monotonic time.Duration) time.Duration {
	if !r.ok {
		return monotonic
	}
	at, ok := sleeplessTime()
	if !ok {
		return monotonic
	}
	return at - r.at
}

func sleeplessTime() (time.Duration, bool) {
	var t unix.Timespec
	if err := unix.ClockGettime(sleeplessClock, &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
