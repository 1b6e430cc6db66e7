//go:build unix

package main

import "golang.org/x/sys/unix"

// openFilesLimit returns how many files a process may have open.
func openFilesLimit() (n uint64, known bool) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	return uint64(l.Max), true //nolint:unconvert // signed on some systems; Go raises the soft limit by itself
}
