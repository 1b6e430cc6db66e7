package statedir

import (
	"os"

	"golang.org/x/sys/windows"
)

// errHeld is the error of lockPath when the lock is held.
var errHeld error = windows.ERROR_LOCK_VIOLATION

// lockPath locks the file's first byte, which need not exist. The system drops the lock when the
// process ends in any way.
func lockPath(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if err != nil {
		f.Close()
		if err == errHeld {
			return nil, errHeld
		}
		return nil, &os.PathError{Op: "LockFileEx", Path: path, Err: err}
	}
	return f, nil
}

func unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, new(windows.Overlapped))
}
