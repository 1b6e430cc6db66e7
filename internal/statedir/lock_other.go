//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package statedir

import (
	"errors"
	"os"
	"slices"
	"sync"
)

// errHeld is what locking fails with when somebody has the lock.
var errHeld = errors.New("locked")

// held are the files that this process has locked.
var held struct {
	sync.Mutex
	files []os.FileInfo
}

// lockPath does what it can where there is no lock that ends with its process: it keeps out a second Open of the same process, and on Plan 9 a second
// process, too, since a file of this mode is opened once at a time. Elsewhere the operator must see to it that no two processes use one directory. (A
// file that is there while the directory is in use would do, but would have to be removed by hand after each crash; and who is used to
// that removes it once too often.)
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
