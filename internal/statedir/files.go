package statedir

import (
	"io"
	"io/fs"
	"os"
)

// files is all that this package does to a disk, so that tests can put one in its place that fails, or stops, at any step.
type files interface {
	// stat follows links, lstat doesn't.
	stat(path string) (fs.FileInfo, error)
	lstat(path string) (fs.FileInfo, error)
	// mkdir makes one directory.
	mkdir(path string) error
	// lock opens or creates a file and locks it until it is closed or the process ends; errHeld if it is locked.
	lock(path string) (lock, error)
	// read returns a file's bytes, or the first limit of them.
	read(path string, limit int64) ([]byte, error)
	// create makes a file, which must not be there.
	create(path string) (file, error)
	// rename replaces a file.
	rename(from, to string) error
	remove(path string) error
	// syncDir makes the names in a directory outlive a loss of power, where the system can.
	syncDir(path string) error
}

// file is a file that is written once, from its beginning.
type file interface {
	io.WriteCloser
	// Sync makes what was written outlive a loss of power. After an error nobody knows what is on the disk, and a second Sync may
	// say that all is well though it isn't: the system has dropped what it couldn't write.
	Sync() error
}

// lock is a locked file.
type lock interface {
	io.Closer
	// ours reports whether the file that is locked still is the one that a second process would try to lock.
	ours() bool
}

// disk is the files of the system.
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
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
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

// Close unlocks before it closes: a child that is just being started may still have a copy of the file, which would keep the lock.
func (l *lockedFile) Close() error {
	err := unlock(l.f)
	if closed := l.f.Close(); err == nil {
		err = closed
	}
	return err
}
