package statedir

import (
	"errors"
	"fmt"
	"io/fs"
)

// usedFiles are all names that this package opens, writes or removes. Other names in the directory
// are left alone: the root of a file system has a lost+found, for example.
var usedFiles = []string{lockFile, stateFile, tempFile, peersFile, peersTemp}

// inspect refuses a directory if any of the files is no plain file: opening a named pipe or a
// device may hang, and a write would replace a link rather than the link's target. Modes that let
// other users in are noted.
func (d *Dir) inspect() error {
	info, err := d.files.stat(d.path)
	if err != nil {
		return &Error{Path: d.path, Reason: ErrIO, Text: "it can't be reached", Err: err, Advice: adviceDir}
	}
	d.noteMode(d.path, info.Mode(), dirMode)
	for _, name := range usedFiles {
		path := d.in(name)
		info, err := d.files.lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return &Error{Path: path, Reason: ErrIO, Text: "it can't be reached", Err: err, Advice: adviceRead}
		}
		if err := requirePlain(name, path, info.Mode()); err != nil {
			return err
		}
		d.noteMode(path, info.Mode(), fileMode)
	}
	return nil
}

// requirePlain returns an error for anything but a plain file.
func requirePlain(name, path string, mode fs.FileMode) error {
	switch {
	case mode.IsRegular():
		return nil
	case name == stateFile:
		return &Error{Path: path, Reason: ErrCorrupt, Text: notPlain(mode), Advice: adviceCorrupt}
	}
	return &Error{Path: path, Reason: ErrIO, Text: notPlain(mode), Advice: adviceRemove}
}

// notPlain describes the object in the place of a plain file.
func notPlain(mode fs.FileMode) string {
	kind := "something else"
	switch {
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe (FIFO)"
	case mode&fs.ModeSymlink != 0:
		kind = "a symbolic link"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode.IsDir():
		kind = "a directory"
	}
	return fmt.Sprintf("it is no plain file but %s (%v)", kind, mode)
}

// noteMode notes a mode wider than the owner's: other users could read the addresses of the nodes,
// or change this node's promises.
func (d *Dir) noteMode(path string, mode, want fs.FileMode) {
	if modesCount && mode.Perm()&^0o700 != 0 {
		d.warnings = append(d.warnings, fmt.Sprintf("the mode of %s is %v, so that other users may get at the state; run: chmod %o %s", path, mode, want, path))
	}
}

// Warnings returns problems for the operator to fix, though the directory can be used.
func (d *Dir) Warnings() []string { return d.warnings }
