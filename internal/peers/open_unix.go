//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package peers

import "golang.org/x/sys/unix"

// noWait is a flag for opening a file: the open of a named pipe returns, and doesn't wait for a
// writer.
const noWait = unix.O_NONBLOCK
