//go:build !unix

package main

// openFilesLimit returns false: this system has no such limit.
func openFilesLimit() (uint64, bool) { return 0, false }
