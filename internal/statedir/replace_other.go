//go:build !unix && !windows

package statedir

import "os"

func replace(from, to string) error { return os.Rename(from, to) }

// syncDir does nothing: these systems have no call for it.
func syncDir(string) error { return nil }

// readOnly is for those errors of syncDir that there are elsewhere.
func readOnly(error) bool { return false }
