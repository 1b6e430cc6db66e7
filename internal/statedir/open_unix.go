//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package statedir

import "golang.org/x/sys/unix"

// modesCount: the mode bits determine who may read and write.
const modesCount = true

// plainOnly are flags for opening a path that may just have been replaced by another kind of file:
// the open fails or returns, and never hangs. Links aren't followed, and a pipe isn't waited for.
const plainOnly = unix.O_NOFOLLOW | unix.O_NONBLOCK
