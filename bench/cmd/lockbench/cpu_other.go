//go:build !linux

package main

import "time"

// cpuTime isn't known on this system.
func cpuTime([]int) (time.Duration, bool) { return 0, false }
