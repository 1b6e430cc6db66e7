//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package statedir

import (
	"os"

	"golang.org/x/sys/unix"
)

// errHeld is what locking fails with when somebody has the lock.
var errHeld error = unix.EWOULDBLOCK

// lockPath locks with flock, which belongs to the open file and not to the process, as a lock of fcntl would: so a second Open of one process fails as
// well, and nobody's closing of another descriptor gives it up. The system drops it when the process ends, however it ends.
func lockPath(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if err == errHeld {
			return nil, errHeld
		}
		return nil, &os.PathError{Op: "flock", Path: path, Err: err}
	}
	return f, nil
}

func unlock(f *os.File) error { return flock(f, unix.LOCK_UN) }

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
