//go:build unix && !linux

package job

// parentOf returns zero, since only Linux tells the parent of another process in a simple way.
func parentOf(int) int { return 0 }
