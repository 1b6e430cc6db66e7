//go:build unix

package main

import "golang.org/x/sys/unix"

// openFilesLimit returns how many files this process may have open. Go has raised the limit as far
// as the system allows.
func openFilesLimit() (n uint64, known bool) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	return uint64(l.Cur), true //nolint:unconvert // signed on some systems
}
