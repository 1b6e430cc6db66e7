package clock

import "golang.org/x/sys/unix"

// sleeplessClock is the clock of the holders. CLOCK_MONOTONIC_RAW continues while the machine is
// asleep, and has otherwise the rate of Go's monotonic clock (CLOCK_UPTIME_RAW). CLOCK_MONOTONIC
// would be wrong: it also continues, but its rate is corrected as the wall clock's is, so it may
// fall behind Go's clock in the course of days, and then hide as much of a later sleep.
const sleeplessClock = unix.CLOCK_MONOTONIC_RAW
