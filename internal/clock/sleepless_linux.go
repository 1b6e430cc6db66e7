package clock

import "golang.org/x/sys/unix"

// sleeplessClock is the clock of the holders. CLOCK_MONOTONIC would be wrong: it stops while the
// machine is suspended.
const sleeplessClock = unix.CLOCK_BOOTTIME
