//go:build unix

package statedir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func replace(from, to string) error { return os.Rename(from, to) }

// syncDir syncs a directory. A file system that reports no support for syncing directories is
// assumed not to need the sync: some network file systems are of this kind.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !needsNoSync(err) {
		return err
	}
	return nil
}

// needsNoSync reports whether a file system has reported no support for syncing directories.
func needsNoSync(err error) bool { return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) }

// readOnly reports whether a write failed because the file system is mounted read-only.
func readOnly(err error) bool { return errors.Is(err, unix.EROFS) }
