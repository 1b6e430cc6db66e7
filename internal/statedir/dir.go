package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Dir is a state directory that this process has for itself until it is closed. Its methods may be called from any goroutine; each does its I/O before
// it returns.
type Dir struct {
	path  string // absolute: the process may change its working directory
	files files

	mu     sync.Mutex
	lock   lock        // nil once closed
	loaded bool        // Load has succeeded, so that there is nothing that Save must not replace
	mesh   string      // whose directory it is, by Load
	name   vote.NodeID // likewise
}

// Open makes the directory if it is missing, with those above it, and locks it until Close, or until the process ends, however it ends. It removes
// what a crash has left of a write. Nothing of a state is read or made yet.
//
// It fails with an [*Error]: ErrLocked when another process, or this one, has the directory open; ErrIO when it can't be made or locked.
func Open(path string) (*Dir, error) { return open(disk{}, path) }

func open(files files, path string) (*Dir, error) {
	if path == "" {
		return nil, &Error{Path: `""`, Reason: ErrMisuse, Text: "the directory has no name", Advice: "name one"}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, &Error{Path: path, Reason: ErrIO, Text: "the working directory isn't known", Err: err, Advice: "name the directory by its full path"}
	}
	d := &Dir{path: abs, files: files}
	_, err = files.lstat(d.in(stateFile))
	if err := d.makeDir(abs, err == nil); err != nil {
		return nil, err
	}
	if err := d.takeLock(); err != nil {
		return nil, err
	}
	if err := d.removeTemp(); err != nil {
		d.lock.Close()
		return nil, &Error{Path: d.in(tempFile), Reason: ErrIO, Text: "what a crash has left can't be removed", Err: err, Advice: adviceDir}
	}
	return d, nil
}

func (d *Dir) in(name string) string { return filepath.Join(d.path, name) }

// makeDir makes a directory and those above it, each synced into the one above: else the first loss of power would take the state with it. One that is there
// is synced, too, unless a state was kept in it: whoever made it may have been killed, or have failed, in between.
func (d *Dir) makeDir(path string, kept bool) error {
	info, err := d.files.stat(path)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !missing:
		return &Error{Path: path, Reason: ErrIO, Text: "it can't be reached", Err: err, Advice: adviceDir}
	case err == nil && !info.IsDir():
		return &Error{Path: path, Reason: ErrIO, Text: "it is a file, not a directory", Advice: adviceDir}
	case err == nil && kept:
		return nil
	}
	above := filepath.Dir(path)
	switch {
	case above != path:
	case missing:
		return &Error{Path: path, Reason: ErrIO, Text: "it isn't there", Err: err, Advice: adviceDir}
	default:
		return nil
	}
	if err := d.makeDir(above, kept); err != nil {
		return err
	}
	if missing {
		if err := d.files.mkdir(path); err != nil && !errors.Is(err, fs.ErrExist) { // two that start at once both make it; the lock decides
			return &Error{Path: path, Reason: ErrIO, Text: "it can't be made", Err: err, Advice: adviceDir}
		}
	}
	switch err := d.files.syncDir(above); {
	case err == nil, errors.Is(err, fs.ErrPermission): // it may be one in which we can make what we can't list
	case !missing && readOnly(err): // nobody has made anything there
	default:
		return &Error{Path: above, Reason: ErrIO, Text: "what was made in it can't be synced", Err: err, Advice: adviceSyncDir}
	}
	return nil
}

func (d *Dir) takeLock() error {
	l, err := d.files.lock(d.in(lockFile))
	switch {
	case err == errHeld:
		return &Error{Path: d.path, Reason: ErrLocked, Text: "another process has it open, or another node of this process", Advice: adviceLocked}
	case err != nil:
		return &Error{Path: d.in(lockFile), Reason: ErrIO, Text: "the directory can't be locked", Err: err, Advice: adviceLock}
	case !l.ours(): // somebody removed it after it was opened: the next one would lock another file
		l.Close()
		return d.replaced()
	}
	d.lock = l
	return nil
}

// replaced is the error for a directory of which this process has no longer the lock that others would ask for.
func (d *Dir) replaced() error {
	return &Error{Path: d.in(lockFile), Reason: ErrLocked, Text: "the file was removed or replaced while it was locked, so that another process may use the directory, too",
		Advice: adviceReplaced}
}

// removeTemp removes what is left of a write, if anything is.
func (d *Dir) removeTemp() error {
	if err := d.files.remove(d.in(tempFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Load returns the state of a node in a mesh; found is false when there is none, which is how a new peer begins.
//
// It fails with an [*Error]: ErrCorrupt, ErrForeign when the state is of another mesh or another name, ErrFormat or ErrIO. Then nothing is known of
// what this node has promised, and it must not take part.
//
// What it returns need not outlive a loss of power yet, since the process before may have ended before it was synced: whoever starts saves once before
// it answers anything. (State.Writes counts starts, so there is something to save.)
func (d *Dir) Load(mesh string, name vote.NodeID) (st vote.State, found bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return vote.State{}, false, d.closed()
	}
	d.loaded = false
	path := d.in(stateFile)
	info, err := d.files.lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.loaded, d.mesh, d.name = true, mesh, name
		return vote.State{}, false, nil
	case err != nil:
		return vote.State{}, false, &Error{Path: path, Reason: ErrIO, Text: "it can't be reached", Err: err, Advice: adviceRead}
	case !info.Mode().IsRegular(): // to open a pipe would hang, and Save would replace a link, not what it leads to
		return vote.State{}, false, &Error{Path: path, Reason: ErrCorrupt, Text: fmt.Sprintf("it is no plain file but %v", info.Mode()), Advice: adviceCorrupt}
	}
	data, err := d.files.read(path, maxSize+1)
	if err != nil {
		return vote.State{}, false, &Error{Path: path, Reason: ErrIO, Text: "it can't be read", Err: err, Advice: adviceRead}
	}
	st, err = decode(path, data)
	if err != nil {
		return vote.State{}, false, err
	}
	if err := whose(path, &st, mesh, name); err != nil {
		return vote.State{}, false, err
	}
	d.loaded, d.mesh, d.name = true, mesh, name
	return st, true, nil
}

// whose complains about a state of another mesh or another node.
func whose(path string, st *vote.State, mesh string, name vote.NodeID) error {
	switch {
	case st.Mesh != mesh:
		return &Error{Path: path, Reason: ErrForeign, Text: fmt.Sprintf("it is of mesh %q, node %q; expected mesh %q", st.Mesh, st.Name, mesh), Advice: adviceForeign}
	case st.Name != name:
		return &Error{Path: path, Reason: ErrForeign, Text: fmt.Sprintf("it is of node %q; expected node %q", st.Name, name), Advice: adviceForeign}
	}
	return nil
}

func (d *Dir) closed() error {
	return &Error{Path: d.path, Reason: ErrMisuse, Text: "the directory was closed", Err: fs.ErrClosed, Advice: adviceReport}
}

// Close gives the directory up, after a Save that is under way. A second Close does nothing.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return nil
	}
	l := d.lock
	d.lock = nil
	if err := l.Close(); err != nil {
		return &Error{Path: d.in(lockFile), Reason: ErrIO, Text: "the lock can't be given back before the process ends", Err: err, Advice: "end the process"}
	}
	return nil
}
