//go:build !linux

package main

// fileSystemOf returns a disk of this machine: only Linux is asked.
func fileSystemOf(string) (place, string) { return onMachine, "" }

// pathMTU returns false: only Linux is asked.
func pathMTU(string) (int, bool) { return 0, false }
