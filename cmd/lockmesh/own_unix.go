//go:build unix

package main

import (
	"os"
	"syscall"
)

// isOwn reports whether this process's user has made a file, in place of a link by another user.
func isOwn(file os.FileInfo) bool {
	s, ok := file.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid() && s.Nlink == 1
}
