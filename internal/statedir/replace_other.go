//go:build !unix && !windows

package statedir

import "os"

func replace(from, to string) error { return os.Rename(from, to) }

// syncDir does nothing: these systems have no call for syncing a directory.
func syncDir(string) error { return nil }

// readOnly matches errors of syncDir on other systems.
func readOnly(error) bool { return false }
