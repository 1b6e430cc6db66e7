//go:build unix

package job

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Terminal is the terminal of this process. From the terminal a user sends signals (Ctrl-C, Ctrl-Z)
// to the processes of a single group, the foreground group. A process of another group is stopped
// at a read. A nil *Terminal stands for no terminal.
type Terminal struct{ file *os.File }

// OpenTerminal returns the terminal of this process; nil without a terminal.
func OpenTerminal() *Terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return &Terminal{f}
}

// Close closes the terminal's file.
func (t *Terminal) Close() {
	if t != nil {
		_ = t.file.Close()
	}
}

// IsOurs reports whether this process's group is the foreground group.
func (t *Terminal) IsOurs() bool { return t.foreground() == unix.Getpgrp() }

// foreground returns the foreground group; zero without a terminal.
func (t *Terminal) foreground() int {
	if t == nil {
		return 0
	}
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// Give makes a group the foreground group, if this process's group or the group from is the
// foreground group now.
func (t *Terminal) Give(group, from int) {
	if now := t.foreground(); now == 0 || now != unix.Getpgrp() && now != from {
		return
	}
	// A process of another group is stopped on changing the foreground group, unless the process
	// ignores the signal.
	signal.Ignore(unix.SIGTTOU)
	defer signal.Reset(unix.SIGTTOU)
	_ = unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group)
}
