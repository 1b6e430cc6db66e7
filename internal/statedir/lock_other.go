//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package statedir

import (
	"errors"
	"os"
	"slices"
	"sync"
)

// errHeld is the error of lockPath when the lock is held.
var errHeld = errors.New("locked")

// held lists the files locked by this process.
var held struct {
	sync.Mutex
	files []os.FileInfo
}

// lockPath does what is possible on systems without a lock tied to its process. A second Open of
// the same process is excluded, and on Plan 9 a second process, too, since a file of this mode can
// be open only once at a time. Elsewhere the operator must ensure that no two processes use one
// directory. (A file that exists while the directory is in use would do, but would have to be
// removed by hand after each crash, and a habit of removing the file ends with removing the lock of
// a live process.)
func lockPath(path string) (*os.File, error) {
	held.Lock()
	defer held.Unlock()
	if info, err := os.Stat(path); err == nil && slices.ContainsFunc(held.files, func(h os.FileInfo) bool { return os.SameFile(h, info) }) {
		return nil, errHeld
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode|os.ModeExclusive)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	held.files = append(held.files, info)
	return f, nil
}

func unlock(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	held.Lock()
	defer held.Unlock()
	held.files = slices.DeleteFunc(held.files, func(h os.FileInfo) bool { return os.SameFile(h, info) })
	return nil
}
