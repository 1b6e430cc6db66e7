package lockmesh

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleeplessRef is a reading of CLOCK_BOOTTIME, which goes on while the machine is suspended.
type sleeplessRef struct {
	at time.Duration
	ok bool // false on kernels before 2.6.39, and where a sandbox forbids the clock
}

func readSleepless() sleeplessRef {
	at, ok := bootTime()
	return sleeplessRef{at, ok}
}

// since returns how long ago the reading was taken, time asleep included. Where the clock can't be read it is what the monotonic
// clock says.
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

func bootTime() (time.Duration, bool) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
