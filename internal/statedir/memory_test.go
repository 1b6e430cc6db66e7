package statedir

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

var errStopped = errors.New("the process has been killed")

// memory is a disk that keeps apart the data seen by processes and the data left by a power loss.
// The disk stops after any step, as a killed process does, and fails at any step.
type memory struct {
	seen names // by processes
	safe names // on the disk
	held map[string]bool

	steps []string // the steps done, in order
	// stopAt is the first step not done any more, or half done if the step is a write; negative:
	// all steps are done.
	stopAt int

	fail func(op, path string) error // nil: nothing fails
}

// names are a directory tree: a file has an inode, a directory has none.
type names map[string]*inode

type inode struct {
	seen []byte
	safe []byte
	// A sync has failed: the system has dropped the unsynced bytes, and later syncs report success.
	bad bool
}

func newMemory() *memory {
	root := names{}
	for path := absolute("/"); ; path = filepath.Dir(path) {
		root[path] = nil
		if path == filepath.Dir(path) {
			return &memory{seen: root, safe: maps.Clone(root), held: map[string]bool{}, stopAt: -1}
		}
	}
}

func absolute(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return abs
}

// step counts a step, and fails if the process was killed before, or if the step is to fail.
func (m *memory) step(op, path string) error {
	if m.stopAt >= 0 && len(m.steps) >= m.stopAt {
		return errStopped
	}
	m.steps = append(m.steps, op+" "+filepath.Base(path))
	if m.fail != nil {
		if err := m.fail(op, filepath.Base(path)); err != nil {
			return &fs.PathError{Op: op, Path: path, Err: err}
		}
	}
	return nil
}

func (m *memory) stat(path string) (fs.FileInfo, error) {
	if err := m.step("stat", path); err != nil {
		return nil, err
	}
	n, ok := m.seen[path]
	if !ok {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
	}
	return info{filepath.Base(path), n}, nil
}

func (m *memory) lstat(path string) (fs.FileInfo, error) { return m.stat(path) }

func (m *memory) mkdir(path string) error {
	if err := m.step("mkdir", path); err != nil {
		return err
	}
	if _, ok := m.seen[path]; ok {
		return &fs.PathError{Op: "mkdir", Path: path, Err: fs.ErrExist}
	}
	if _, ok := m.seen[filepath.Dir(path)]; !ok {
		return &fs.PathError{Op: "mkdir", Path: path, Err: fs.ErrNotExist}
	}
	m.seen[path] = nil
	return nil
}

func (m *memory) lock(path string) (lock, error) {
	if err := m.step("lock", path); err != nil {
		return nil, err
	}
	if m.held[path] {
		return nil, errHeld
	}
	m.held[path] = true
	if m.seen[path] == nil {
		m.seen[path] = &inode{}
	}
	return &memoryLock{m, path, m.seen[path]}, nil
}

type memoryLock struct {
	m    *memory
	path string
	n    *inode
}

func (l *memoryLock) ours() bool   { return l.m.step("ours", l.path) == nil && l.m.seen[l.path] == l.n }
func (l *memoryLock) Close() error { delete(l.m.held, l.path); return l.m.step("unlock", l.path) }

func (m *memory) read(path string, limit int64) ([]byte, error) {
	if err := m.step("read", path); err != nil {
		return nil, err
	}
	n := m.seen[path]
	if n == nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return slices.Clone(n.seen[:min(int64(len(n.seen)), limit)]), nil
}

func (m *memory) create(path string) (file, error) {
	if err := m.step("create", path); err != nil {
		return nil, err
	}
	if _, ok := m.seen[path]; ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrExist}
	}
	n := &inode{}
	m.seen[path] = n
	return &memoryFile{m, path, n}, nil
}

type memoryFile struct {
	m    *memory
	path string
	n    *inode
}

func (f *memoryFile) Write(b []byte) (int, error) {
	if err := f.m.step("write", f.path); err != nil {
		f.n.seen = append(f.n.seen, b[:len(b)/2]...)
		return len(b) / 2, err
	}
	f.n.seen = append(f.n.seen, b...)
	return len(b), nil
}

func (f *memoryFile) Sync() error {
	if err := f.m.step("sync", f.path); err != nil {
		f.n.bad = true
		return err
	}
	if !f.n.bad {
		f.n.safe = slices.Clone(f.n.seen)
	}
	return nil
}

func (f *memoryFile) Close() error { return f.m.step("close", f.path) }

func (m *memory) rename(from, to string) error {
	if err := m.step("rename", from); err != nil {
		return err
	}
	n, ok := m.seen[from]
	if !ok {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	delete(m.seen, from)
	m.seen[to] = n
	return nil
}

func (m *memory) remove(path string) error {
	if err := m.step("remove", path); err != nil {
		return err
	}
	if _, ok := m.seen[path]; !ok {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
	}
	delete(m.seen, path)
	return nil
}

func (m *memory) syncDir(path string) error {
	if err := m.step("syncdir", path); err != nil {
		return err
	}
	maps.DeleteFunc(m.safe, func(name string, _ *inode) bool { return name != path && filepath.Dir(name) == path })
	for name, n := range m.seen {
		if filepath.Dir(name) == path {
			m.safe[name] = n
		}
	}
	return nil
}

// fates are the possible fates of unsynced bytes in a power loss.
var fates = map[string]func(n *inode) []byte{
	"kept":   func(n *inode) []byte { return n.seen },
	"lost":   func(n *inode) []byte { return n.safe },
	"zeroed": func(n *inode) []byte { return append(slices.Clone(n.safe), make([]byte, len(n.seen)-len(n.safe))...) },
	"torn":   func(n *inode) []byte { return n.seen[:max(len(n.safe), len(n.seen)/3)] },
}

// restarts returns the disks that may be found after a kill, and after a power loss: each unsynced
// name is there or not, independently of the others.
func (m *memory) restarts() map[string]*memory {
	found := map[string]*memory{"killed": m.restart(m.seen, fates["kept"])}
	var open []string
	for _, tree := range []names{m.seen, m.safe} {
		for name := range tree {
			if seen, ok := m.seen[name]; ok != has(m.safe, name) || seen != m.safe[name] {
				open = append(open, name)
			}
		}
	}
	slices.Sort(open)
	open = slices.Compact(open)
	for kept := range 1 << len(open) {
		tree := maps.Clone(m.safe)
		label := "power lost"
		for i, name := range open {
			if kept>>i&1 == 0 {
				continue
			}
			label += ", " + filepath.Base(name) + " as seen"
			if n, ok := m.seen[name]; ok {
				tree[name] = n
			} else {
				delete(tree, name)
			}
		}
		for fate, bytes := range fates {
			found[label+", bytes "+fate] = m.restart(tree, bytes)
		}
	}
	return found
}

func has(tree names, name string) bool { _, ok := tree[name]; return ok }

func (m *memory) restart(tree names, bytes func(*inode) []byte) *memory {
	after := newMemory()
	for name, n := range tree {
		if !reachable(tree, name) {
			continue
		}
		if n != nil {
			b := bytes(n)
			n = &inode{seen: slices.Clone(b), safe: slices.Clone(b)}
		}
		after.seen[name] = n
	}
	after.safe = maps.Clone(after.seen)
	return after
}

// reachable reports whether all directories above a name exist.
func reachable(tree names, name string) bool {
	for ; name != filepath.Dir(name); name = filepath.Dir(name) {
		if !has(tree, name) {
			return false
		}
	}
	return true
}

type info struct {
	name string
	n    *inode
}

func (i info) Name() string       { return i.name }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) Sys() any           { return nil }
func (i info) IsDir() bool        { return i.n == nil }
func (i info) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir | dirMode
	}
	return fileMode
}
func (i info) Size() int64 {
	if i.IsDir() {
		return 0
	}
	return int64(len(i.n.seen))
}

// left returns the names of a directory's files, except the lock.
func (m *memory) left(dir string) string {
	var files []string
	for name, n := range m.seen {
		if n != nil && filepath.Dir(name) == dir && filepath.Base(name) != lockFile {
			files = append(files, filepath.Base(name))
		}
	}
	slices.Sort(files)
	return strings.Join(files, " ")
}
