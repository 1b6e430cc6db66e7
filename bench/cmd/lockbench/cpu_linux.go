package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the processor time that processes have used so far, to the nanosecond.
func cpuTime(pids []int) (total time.Duration, ok bool) {
	for _, pid := range pids {
		var t unix.Timespec
		// What clock_getcpuclockid(3) returns: of a process, and all of its threads, as the scheduler counts.
		if unix.ClockGettime(int32(^pid)<<3|2, &t) != nil {
			return 0, false
		}
		total += time.Duration(t.Nano())
	}
	return total, true
}
