//go:build unix

package main

import (
	"os"
	"syscall"
)

// pauses are the ways to pause a holder on this system, the most real one first.
var pauses = []string{"stop", "cut"}

// stop stops a process: it does nothing at all until it is continued, and doesn't notice.
func stop(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
