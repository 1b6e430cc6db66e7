//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package peers

// noWait is empty where the system has no such flag.
const noWait = 0
