//go:build unix

package statedir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func replace(from, to string) error { return os.Rename(from, to) }

// syncDir takes a file system that can't sync a directory, and says so, for one that needn't: some that are reached by a network are like that.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}

// readOnly reports whether a file system couldn't be written since it is mounted so.
func readOnly(err error) bool { return errors.Is(err, unix.EROFS) }
