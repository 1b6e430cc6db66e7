// Package job runs a command in a process group of its own, and ends all of the command's processes
// when that has to be: the lock that the command needs is lost, or the process that runs the job is
// killed.
//
// The processes of a job are those of the command's process group. On Linux they are also those
// that the command's shell has put into groups of their own (set -m): they are found by a variable
// in their environment, [MarkVariable]. A process that makes a session of its own, as a daemon
// does, is no part of the job. A job that a process of this job starts is a part of this job.
package job

import (
	"errors"
	"os"
	"syscall"
)

// MarkVariable is the environment variable that marks the processes of a job. Its value has a mark
// for each job that the process is a part of, the outermost first, with colons between the marks.
// Marks differ from job to job.
const MarkVariable = "LOCKMESH_RUN"

// GuardVerb is the first argument of a process that must call [Guard] at once, and nothing else.
const GuardVerb = "internal-guard"

// ErrNotFound means that there is no such command, as a shell's code 127 says.
var ErrNotFound = errors.New("there is no such command")

// ErrNotRun means that the command can't be run, as a shell's code 126 says.
var ErrNotRun = errors.New("the command can't be run")

// Change is a change of the state of a command. The zero Change says nothing.
type Change struct {
	// Ended says that the command has ended: by Signal, or else with Code.
	Ended bool
	// Stopped is the signal that has stopped the command; zero if none has.
	Stopped syscall.Signal
	// Code is the exit code of a command that has ended.
	Code int
	// Signal is the signal that has ended the command; zero if none has.
	Signal syscall.Signal
}

// Command is what to run.
type Command struct {
	// Args are the command's name, a path or looked up in PATH, and its arguments.
	Args []string
	// Env is the environment. The mark of the job is added to the marks in [MarkVariable].
	Env []string
	// Keep are files that the guard of the job keeps open until all processes of the job have
	// ended, even if this process is killed: the connections that hold the locks. Start doesn't
	// close them.
	Keep []*os.File
}
