//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package statedir

import (
	"os"

	"golang.org/x/sys/unix"
)

// errHeld is the error of lockPath when the lock is held.
var errHeld error = unix.EWOULDBLOCK

// lockPath locks with flock. A flock belongs to the open file, and not to the process as a lock of
// fcntl would: so a second Open in one process fails as well, and closing another descriptor
// doesn't release the lock. The system drops the lock when the process ends in any way.
func lockPath(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|plainOnly, fileMode)
	if err != nil {
		return nil, err
	}
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, lockError(path, err)
	}
	return f, nil
}

// lockError distinguishes a held lock from a lock that can't be taken at all.
func lockError(path string, err error) error {
	if err == errHeld {
		return errHeld
	}
	return &os.PathError{Op: "flock", Path: path, Err: err}
}

func unlock(f *os.File) error { return flock(f, unix.LOCK_UN) }

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
