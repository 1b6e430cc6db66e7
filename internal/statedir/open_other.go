//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package statedir

// modesCount: the mode bits don't determine who may read and write.
const modesCount = false

// plainOnly is empty where the system has no such flags.
const plainOnly = 0
