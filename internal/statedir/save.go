package statedir

import (
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Save replaces the state. When Save returns nil, the new state survives a crash of the process and
// a loss of power, as far as the disk and the system keep their guarantees. Save doesn't retain st.
//
// Save fails with an [*Error]. After an error the previous state remains, with one exception: if
// only the last step fails, the sync of the directory, either state may be there after a loss of
// power. So after any error the caller sends no answer that depends on the new state, and retracts
// no answer that depends on the new state. The caller may call Save again; each call writes a new
// file, since a file with a failed sync is never known to be on disk.
//
// Load must have succeeded before, and st must belong to the mesh and node passed to Load.
// Otherwise Save fails with ErrMisuse, as for a state that makes no sense. ErrLocked means that the
// lock file of this process was removed; then the process can't save any more.
func (d *Dir) Save(st *vote.DiskState) error {
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
		return &Error{Path: path, Reason: ErrIO, Text: "the new state is in place, but its directory " +
			"can't be synced", Err: err, Advice: adviceSync}
	}
	return nil
}

// unfit returns why a state must not be saved here; empty if it may.
func (d *Dir) unfit(st *vote.DiskState) string {
	switch {
	case !d.loaded:
		return "the existing state hasn't been loaded, so it might be lost"
	case st.Mesh != d.mesh || st.Name != d.name:
		return fmt.Sprintf("it is of mesh %q, node %q, but the directory of mesh %q, node %q", st.Mesh, st.Name, d.mesh, d.name)
	}
	return nonsense(st)
}

// write writes the bytes to a new file and renames the file over the old one; step is the failed
// step. The order counts: a file renamed before its bytes were synced may be empty after a loss of
// power.
func (d *Dir) write(data []byte) (step string, err error) {
	temp := d.in(tempFile)
	if err := d.removeTemp(); err != nil {
		return "begun, since the temporary file of an earlier try can't be removed", err
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
	if err := f.Close(); err != nil { // some file systems report only now that they had no space
		return "finished", err
	}
	if err := d.files.rename(temp, d.in(stateFile)); err != nil {
		return "put in the place of the old one", err
	}
	return "", nil
}
