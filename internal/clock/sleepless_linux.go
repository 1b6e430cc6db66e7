package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleeplessRef is a reading of CLOCK_BOOTTIME, a clock that continues while the machine is
// suspended.
type sleeplessRef struct {
	at time.Duration
	ok bool // false on kernels before 2.6.39, and where a sandbox forbids the clock
}

func readSleepless() sleeplessRef {
	at, ok := bootTime()
	return sleeplessRef{at, ok}
}

// since returns the time since the reading, including time asleep. If the clock can't be read,
// since returns the given time of the monotonic clock.
func (r sleeplessRef) since(monotonic time.Duration) time.Duration {
	if !r.ok {
		return monotonic
	}
	at, ok := bootTime()
	if !ok {
		return monotonic
	}
	return at - r.at
}

// sleeplessClock is the clock of the holders. CLOCK_MONOTONIC would be wrong: since it stops while
// the machine is suspended, a holder would believe in an expired lease after waking.
const sleeplessClock = unix.CLOCK_BOOTTIME

func bootTime() (time.Duration, bool) {
	var t unix.Timespec
	if err := unix.ClockGettime(sleeplessClock, &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
