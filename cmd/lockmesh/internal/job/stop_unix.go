//go:build unix

package job

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// StopSelf stops this process until a shell continues the process; without a shell that could do
// so, StopSelf does nothing. StopSelf reports whether the process was stopped.
func StopSelf() bool {
	if isOrphaned() {
		return false
	}
	// Not SIGTSTP: the runtime's handler for this signal doesn't stop the process.
	return unix.Kill(unix.Getpid(), unix.SIGSTOP) == nil
}

// StopForTerminal stops this process's group, as the system does, by the signal for using the
// terminal from the background: the process which has started the group sees what the group waits
// for, also where a shell of the group is between the two.
func StopForTerminal(sig syscall.Signal) bool {
	return !isOrphaned() && unix.Kill(0, sig) == nil
}

// isOrphaned reports whether no process of this group has a parent in another group of the session.
// The system doesn't stop such a group for SIGTSTP, since no shell would continue the group.
func isOrphaned() bool {
	session, err := unix.Getsid(0)
	if err != nil {
		return true
	}
	group := unix.Getpgrp()
	for pid := unix.Getppid(); ; pid = parentOf(pid) {
		s, err := unix.Getsid(pid)
		if pid <= 0 || err != nil || s != session {
			return true
		}
		if g, err := unix.Getpgid(pid); err != nil || g != group {
			return err != nil
		}
	}
}
