package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Dir is a state directory held by this process alone until Close. The methods may be called from
// any goroutine; each does its I/O before it returns.
type Dir struct {
	path  string // absolute: the process may change its working directory
	files files

	mu     sync.Mutex
	lock   lock        // nil once closed
	loaded bool        // Load has succeeded, so Save replaces no unknown state
	mesh   string      // the mesh passed to Load
	name   vote.NodeID // the node passed to Load

	warnings []string // of Open; never changed later
}

// Open makes the directory and its parents if they are missing, and locks the directory until
// Close, or until the process ends in any way. Open removes the remains of a write interrupted by a
// crash. No state is read or written yet.
//
// Open fails with an [*Error]: ErrLocked when another process, or this one, has the directory open;
// ErrIO when the directory can't be made or locked, or when one of its files is no plain file
// (ErrCorrupt for the state). While the disk doesn't answer, Open waits.
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
	if err := d.inspect(); err != nil {
		return nil, err
	}
	if err := d.takeLock(); err != nil {
		return nil, err
	}
	if err := d.removeTemp(); err != nil {
		d.lock.Close()
		return nil, &Error{Path: d.in(tempFile), Reason: ErrIO, Text: "the temporary file left " +
			"by a crash can't be removed", Err: err, Advice: adviceDir}
	}
	return d, nil
}

func (d *Dir) in(name string) string { return filepath.Join(d.path, name) }

// makeDir makes a directory and its parents, and syncs each into the directory above: otherwise the
// first loss of power would take the state away. An existing directory is synced, too, unless a
// state was kept there: the process that made the directory may have been killed, or have failed,
// before its sync.
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
		return &Error{Path: path, Reason: ErrIO, Text: "it doesn't exist", Err: err,
			Advice: adviceDir}
	default:
		return nil
	}
	if err := d.makeDir(above, kept); err != nil {
		return err
	}
	if missing {
		// Two processes that start at once both make the directory; the lock decides.
		if err := d.files.mkdir(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return &Error{Path: path, Reason: ErrIO, Text: "it can't be created", Err: err,
				Advice: adviceDir}
		}
	}
	switch err := d.files.syncDir(above); {
	// Files can be made in some directories that can't be listed.
	case err == nil, errors.Is(err, fs.ErrPermission):
	case !missing && readOnly(err): // on a read-only file system nothing was made
	default:
		return &Error{Path: above, Reason: ErrIO, Text: "the directory created in it can't be " +
			"synced", Err: err, Advice: adviceSyncDir}
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
	// The file was removed after it was opened: the next process would lock another file.
	case !l.ours():
		l.Close()
		return d.replaced()
	}
	d.lock = l
	return nil
}

// replaced returns the error for a directory with a removed or replaced lock file: another process
// would lock another file.
func (d *Dir) replaced() error {
	return &Error{Path: d.in(lockFile), Reason: ErrLocked, Text: "the file was removed or replaced while it was locked, so that another process may use the directory, too",
		Advice: adviceReplaced}
}

// removeTemp removes the remains of a write, if there are any.
func (d *Dir) removeTemp() error {
	if err := d.files.remove(d.in(tempFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Load returns the state of a node in a mesh; found is false when there is none, as for a new peer.
//
// Load fails with an [*Error]: ErrCorrupt, ErrForeign when the state belongs to another mesh or
// another name, ErrFormat or ErrIO. Then the node's promises are unknown, and the node must not
// take part.
//
// The returned state may not survive a loss of power yet, since the previous process may have ended
// before its sync: a node saves once after its start, before it answers anything. (State.Writes
// counts starts, so there is always a change to save.)
func (d *Dir) Load(mesh string, name vote.NodeID) (st vote.DiskState, found bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return vote.DiskState{}, false, d.closed()
	}
	d.loaded = false
	path := d.in(stateFile)
	info, err := d.files.lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.loaded, d.mesh, d.name = true, mesh, name
		return vote.DiskState{}, false, nil
	case err != nil:
		return vote.DiskState{}, false, &Error{Path: path, Reason: ErrIO, Text: "it can't be reached", Err: err, Advice: adviceRead}
	}
	if err := requirePlain(stateFile, path, info.Mode()); err != nil {
		return vote.DiskState{}, false, err
	}
	data, err := d.files.read(path, maxSize+1)
	if err != nil {
		return vote.DiskState{}, false, &Error{Path: path, Reason: ErrIO, Text: "it can't be read", Err: err, Advice: adviceRead}
	}
	st, err = decode(path, data)
	if err != nil {
		return vote.DiskState{}, false, err
	}
	if err := checkOwner(path, &st, mesh, name); err != nil {
		return vote.DiskState{}, false, err
	}
	d.loaded, d.mesh, d.name = true, mesh, name
	return st, true, nil
}

// checkOwner returns an error for a state of another mesh or another node.
func checkOwner(path string, st *vote.DiskState, mesh string, name vote.NodeID) error {
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

// Close releases the directory, after a Save under way. A second Close does nothing.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return nil
	}
	l := d.lock
	d.lock = nil
	if err := l.Close(); err != nil {
		return &Error{Path: d.in(lockFile), Reason: ErrIO, Text: "the lock can't be released " +
			"before the process ends", Err: err, Advice: "end the process"}
	}
	return nil
}
