package statedir

import (
	"strings"
)

// The reasons of an [Error], for [errors.Is].
var (
	// ErrCorrupt means that the file was changed after it was written, or its contents make no
	// sense.
	ErrCorrupt error = sentinel("the state can't be trusted")

	// ErrForeign means that the file belongs to another mesh or another node.
	ErrForeign error = sentinel("the state belongs to another node")

	// ErrFormat means that another version of lockmesh wrote the file.
	ErrFormat error = sentinel("the state is in a format that this version doesn't know")

	// ErrLocked means that another process, or this process, already uses the directory.
	ErrLocked error = sentinel("the directory is in use")

	// ErrIO means that the system failed to read or write. Error.Err has the system's error.
	ErrIO error = sentinel("the disk can't be used")

	// ErrMisuse means that the call isn't allowed, such as saving before loading. Nothing was read
	// or written.
	ErrMisuse error = sentinel("the call isn't allowed")
)

type sentinel string

func (s sentinel) Error() string { return "statedir: " + string(s) }

// The advice to operators.
const (
	adviceCorrupt = "if the file is lost for good, remove it: the node then comes back as a new peer and is voted in again; " +
		"don't put an old copy back, since it has forgotten what the node promised later"
	adviceForeign = "give each node a directory of its own, or give node and mesh their former " +
		"names; if no node needs this state any more, remove the file: the node then joins as a " +
		"new peer"
	adviceFormat = "run a version of lockmesh that knows it; don't edit the file; if there is no such version, remove the file: " +
		"the node then comes back as a new peer and is voted in again"
	adviceLocked   = "stop the other process, or give each node a directory of its own"
	adviceReplaced = "leave the directory alone while a node runs; restart this node"
	adviceLock     = "use a directory on a local disk that this node's user may write to and that knows file locks"
	adviceSyncDir  = "check the disk, or use a directory on another disk"
	adviceDir      = "make it a directory that this node's user may write to, or name another"
	adviceRemove   = "remove it: the node makes the file anew"
	adviceRead     = "let this node's user read it, and check the disk; if the file is lost for " +
		"good, remove it: the node then comes back as a new peer"
	adviceWrite = "check the disk: space, rights, health; the state before it stands, and saving " +
		"may be tried again"
	adviceSync = "check the disk; which of the two states a loss of power leaves is open until " +
		"one is saved"
	adviceReport = "this is a fault of the program: please report it"
)

// Error describes a problem with a state directory and the remedy.
type Error struct {
	// Path is the affected file or directory.
	Path string
	// Reason is one of the sentinels of this package.
	Reason error
	// Text describes the finding, and the expected condition.
	Text string
	// Err is the system's error, or nil.
	Err error
	// Advice is the remedy for the operator.
	Advice string
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("statedir: " + e.Path + ": ")
	if s, ok := e.Reason.(sentinel); ok {
		b.WriteString(string(s) + ": ")
	}
	b.WriteString(e.Text)
	if e.Err != nil {
		b.WriteString(": " + strings.ReplaceAll(e.Err.Error(), "\n", ", "))
	}
	return b.String() + "; " + e.Advice
}

// Unwrap returns the reason and the system's error, for [errors.Is] and [errors.As].
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Err}
}
