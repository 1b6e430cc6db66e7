//go:build darwin || linux

package statedir

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A failure to lock, as on a file system without locks, isn't reported as the lock of another
// process: an operator would look for this process indefinitely.
func TestALockThatCannotBeHadIsNoLockThatAnotherHas(t *testing.T) {
	if err := lockError("lock", unix.EWOULDBLOCK); err != errHeld {
		t.Errorf("a lock that another process has: %v", err)
	}
	err := lockError("lock", unix.ENOLCK)
	if path := (*os.PathError)(nil); err == errHeld || !errors.As(err, &path) || !errors.Is(err, unix.ENOLCK) {
		t.Errorf("a file system without locks: %v", err)
	}
}

// Some file systems can't sync a directory, and needn't. Any other failure is reported.
func TestOnlyAFileSystemThatNeedsNoSyncMayRefuseOne(t *testing.T) {
	for err, needsNone := range map[error]bool{
		unix.EINVAL: true, unix.ENOTSUP: true, unix.EIO: false, unix.ENOSPC: false,
	} {
		if needsNoSync(err) != needsNone {
			t.Errorf("%v: needs no sync: %v, want %v", err, !needsNone, needsNone)
		}
	}
}
