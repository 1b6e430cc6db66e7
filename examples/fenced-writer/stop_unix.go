//go:build unix

package main

import (
	"os"
	"syscall"
)

// pauses are the ways to pause a holder on this system, the most realistic first.
var pauses = []string{"stop", "cut"}

// stop stops a process: until resumed, the process does nothing at all, and doesn't notice.
func stop(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
