package statedir

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// files contains every disk operation of this package, so that tests can substitute a disk failing
// or hanging at any step.
type files interface {
	// stat follows links, lstat doesn't.
	stat(path string) (fs.FileInfo, error)
	lstat(path string) (fs.FileInfo, error)
	// mkdir makes a directory, without its parents.
	mkdir(path string) error
	// lock opens or creates a file and locks it until Close or the end of the process; errHeld if
	// another process, or this one, holds the lock.
	lock(path string) (lock, error)
	// read returns the first bytes of a plain file, at most limit.
	read(path string, limit int64) ([]byte, error)
	// create makes a file, and fails if the file exists.
	create(path string) (file, error)
	// rename replaces a file.
	rename(from, to string) error
	remove(path string) error
	// syncDir makes the names in a directory survive a loss of power, where the system can.
	syncDir(path string) error
}

// file is a file to be written once, from its beginning.
type file interface {
	io.WriteCloser
	// Sync makes the written bytes survive a loss of power. After an error the contents of the disk
	// are unknown, and a second Sync may report success wrongly: the system has dropped the bytes
	// not written.
	Sync() error
}

// lock is a locked file.
type lock interface {
	io.Closer
	// ours reports whether a second process would try to lock this same file.
	ours() bool
}

// disk is the file system of the operating system.
type disk struct{}

func (disk) stat(path string) (fs.FileInfo, error)  { return os.Stat(path) }
func (disk) lstat(path string) (fs.FileInfo, error) { return os.Lstat(path) }
func (disk) mkdir(path string) error                { return os.Mkdir(path, dirMode) }
func (disk) rename(from, to string) error           { return replace(from, to) }
func (disk) remove(path string) error               { return os.Remove(path) }
func (disk) syncDir(path string) error              { return syncDir(path) }

func (disk) create(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, err // not f: an interface with a nil in it isn't nil
	}
	return f, nil
}

func (disk) read(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|plainOnly, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New(notPlain(info.Mode()))
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

func (disk) lock(path string) (lock, error) {
	f, err := lockPath(path)
	if err != nil {
		return nil, err
	}
	return &lockedFile{f, path}, nil
}

type lockedFile struct {
	f    *os.File
	path string
}

func (l *lockedFile) ours() bool {
	mine, err := l.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(l.path)
	return err == nil && os.SameFile(mine, there)
}

// Close unlocks before closing: a child process being started may still have a copy of the
// descriptor, and the copy would keep the lock.
func (l *lockedFile) Close() error {
	err := unlock(l.f)
	if closed := l.f.Close(); err == nil {
		err = closed
	}
	return err
}
