package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// leastFiles is the number of files that a busy node may have open: a connection for each other
// node and for each client, and some more.
const leastFiles = 4096

// files examines the limit of open files.
func (x *examination) files() {
	n, known := openFilesLimit()
	switch {
	case !known:
	case n < leastFiles:
		x.add("files", warn, "raise the limit: ulimit -n, or LimitNOFILE= in the unit of systemd",
			"a process may have %d files open; a connection is a file, and %d are enough for most nodes", n, leastFiles)
	default:
		x.add("files", ok, "", "a process may have %d files open", n)
	}
}

// secretFiles are the variables with the path of a file with a secret.
var secretFiles = []string{
	"LOCKMESH_SECRET_FILE", "LOCKMESH_ADMIN_TOKEN_FILE", "LOCKMESH_RESP_PASSWORD_FILE", "LOCKMESH_REGISTER_TOKEN_FILE",
}

// secrets examines who may read the files with secrets.
func (x *examination) secrets() {
	if runtime.GOOS == "windows" { // a mode says nothing about readers there
		return
	}
	for _, name := range secretFiles {
		path := os.Getenv(name)
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o004 != 0 {
			x.add("secrets", warn, "chmod 600 "+path+"; and change the secret if other users were on the machine",
				"%s: each user of this machine can read %s", name, path)
		}
	}
}

// directory examines the state directory.
func (x *examination) directory() {
	dir := x.cfg.StateDir
	if dir == "" {
		return
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.newDirectory(dir)
		return
	case err != nil:
		x.add("directory", fail, "give the agent's user access to the directory", "%v", err)
		return
	case !info.IsDir():
		x.add("directory", fail, "name a directory with --state-dir", "%s isn't a directory", dir)
		return
	}
	if err := writable(dir); err != nil {
		x.add("directory", fail, "give the directory to the agent's user, and look whether the disk is full",
			"nothing can be written in %s: %v", dir, err)
		return
	}
	at := x.place(dir, dir)
	if at == onNetwork {
		return
	}
	if info.Mode().Perm()&0o022 != 0 {
		x.add("directory", warn, "chmod 700 "+dir, "%s can be written by other users", dir)
	} else if at == onMachine {
		x.add("directory", ok, "", "%s can be written, and is on a disk of this machine", dir)
	}
	_, err = os.Stat(filepath.Join(dir, stateFile))
	if x.cfg.Bootstrap && err == nil {
		x.add("bootstrap", warn, "remove --bootstrap (LOCKMESH_BOOTSTRAP) from the settings",
			"the node has been started before, and is still set to found the electorate; founders that lose their "+
				"directories together would found a second one")
	}
}

// place is where a file system is.
type place int

const (
	onMachine place = iota // on a disk of this machine
	onNetwork
	anywhere // a program answers for the files, and may ask another machine
)

// place returns where the state directory is, as far as the system knows, and adds a finding unless
// it is on a disk of this machine. A directory that doesn't exist will be within its parent.
func (x *examination) place(dir, within string) place {
	const advice = "put the directory on a disk of this machine"
	at, kind := fileSystemOf(within)
	switch at {
	case onNetwork:
		x.add("directory", fail, advice, "%s is on a file system of the network (%s), which may lose or delay what was written", dir, kind)
	case anywhere:
		x.add("directory", warn, advice+", unless it is on one",
			"%s is on a file system of a program (%s), as those of sshfs, GlusterFS or the shares of a virtual machine: "+
				"over a network it may lose or delay what was written", dir, kind)
	}
	return at
}

// stateFile is the file that a node writes at its first start. A directory may have other entries
// before: a new file system has lost+found.
const stateFile = "state"

// newDirectory examines a directory before the agent makes the directory.
func (x *examination) newDirectory(dir string) {
	parent := filepath.Dir(filepath.Clean(dir))
	for {
		if _, err := os.Stat(parent); err == nil || parent == filepath.Dir(parent) {
			break
		}
		parent = filepath.Dir(parent)
	}
	if err := writable(parent); err != nil {
		x.add("directory", fail, "make the directory for the agent's user", "%s can't be made: %v", dir, err)
		return
	}
	if x.place(dir, parent) == onMachine {
		x.add("directory", ok, "", "%s will be made at the first start", dir)
	}
}

// writable returns why no file can be made in a directory; nil if the directory is writable.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}
