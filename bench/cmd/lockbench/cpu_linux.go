package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the processor time used so far by processes, to the nanosecond.
func cpuTime(pids []int) (total time.Duration, ok bool) {
	for _, pid := range pids {
		var t unix.Timespec
		// The clock id from clock_getcpuclockid(3): for a process with all of its threads, as
		// counted by the scheduler.
		if unix.ClockGettime(int32(^pid)<<3|2, &t) != nil {
			return 0, false
		}
		total += time.Duration(t.Nano())
	}
	return total, true
}
