package statedir

import (
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Save replaces the state. When it returns nil the new one outlives a crash of the process and a loss of power, as far as disk and system keep their
// word. It doesn't keep st.
//
// It fails with an [*Error]. The state before it stands then, but for one case: if only the last step fails, which syncs the directory, either
// of the two may be there after a loss of power. So after any error the caller answers nothing that rests on the new state, and takes back nothing that
// rests on it. It may try again; each try writes a file of its own, since a file that couldn't be synced once is never known to be on the disk.
//
// Load must have succeeded before, and st must be of the mesh and node that Load was asked for: else it is ErrMisuse, as for a state that makes no sense.
// ErrLocked means that somebody has removed the lock under this process; then it can't save any more.
func (d *Dir) Save(st *vote.State) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := d.in(stateFile)
	if d.lock == nil {
		return d.closed()
	}
	if problem := d.unfit(st); problem != "" {
		return &Error{Path: path, Reason: ErrMisuse, Text: "the state isn't saved: " + problem, Advice: adviceReport}
	}
	data, err := encode(st)
	if err != nil {
		return &Error{Path: path, Reason: ErrMisuse, Text: "the state isn't saved", Err: err, Advice: adviceReport}
	}
	if !d.lock.ours() {
		return d.replaced()
	}
	if step, err := d.write(data); err != nil {
		_ = d.removeTemp() // Open and the next Save try again
		return &Error{Path: path, Reason: ErrIO, Text: "the new state can't be " + step, Err: err, Advice: adviceWrite}
	}
	if err := d.files.syncDir(d.path); err != nil {
		return &Error{Path: path, Reason: ErrIO, Text: "the new state is there, but its directory can't be synced", Err: err, Advice: adviceSync}
	}
	return nil
}

// unfit says why a state must not be saved here; empty if it may.
func (d *Dir) unfit(st *vote.State) string {
	switch {
	case !d.loaded:
		return "what is there hasn't been loaded, so it might be lost"
	case st.Mesh != d.mesh || st.Name != d.name:
		return fmt.Sprintf("it is of mesh %q, node %q, but the directory of mesh %q, node %q", st.Mesh, st.Name, d.mesh, d.name)
	}
	return nonsense(st)
}

// write puts the bytes into a new file and that in the old one's place; step is what couldn't be done. The order counts: a file that got its name before its
// bytes were synced may be empty after a loss of power.
func (d *Dir) write(data []byte) (step string, err error) {
	temp := d.in(tempFile)
	if err := d.removeTemp(); err != nil {
		return "begun, since what is left of an earlier try can't be removed", err
	}
	f, err := d.files.create(temp)
	if err != nil {
		return "begun", err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return "written", err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return "synced", err
	}
	if err := f.Close(); err != nil { // some file systems tell only now that they had no space
		return "finished", err
	}
	if err := d.files.rename(temp, d.in(stateFile)); err != nil {
		return "put in the place of the old one", err
	}
	return "", nil
}
