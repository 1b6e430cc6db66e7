//go:build !linux

package main

// remoteFileSystem returns false: only Linux is asked.
func remoteFileSystem(string) (string, bool) { return "", false }

// pathMTU returns false: only Linux is asked.
func pathMTU(string) (int, bool) { return 0, false }
