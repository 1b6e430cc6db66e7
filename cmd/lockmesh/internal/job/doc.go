// Package job runs a command in a process group of its own, and ends all of the command's processes
// when the command's lock is lost, or the process that runs the job is killed.
//
// The processes of a job are those of the command's process group. On Linux the processes moved by
// the command's shell into groups of their own (set -m) belong to the job, too: the package finds
// these processes by a variable in their environment, [MarkVariable]. A process with a session of
// its own, such as a daemon, is no part of the job. A job started by a process of this job is a
// part of this job.
package job

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// MarkVariable is the environment variable that marks the processes of a job. The value has a mark
// for each job of the process, the outermost first, with colons between the marks. Marks differ
// from job to job.
const MarkVariable = "LOCKMESH_RUN"

// GuardVerb is the first argument of a guard's process. The process must call [Guard] at once, and
// nothing else.
const GuardVerb = "internal-guard"

// ErrNotFound means the command doesn't exist: code 127 of a shell.
var ErrNotFound = errors.New("there is no such command")

// ErrNotRun means the command can't be run: code 126 of a shell.
var ErrNotRun = errors.New("the command can't be run")

// The pauses between two looks at the processes of a job grow with the time since the first look,
// from LookPause to LongestPause: a look goes through all processes of the machine.
const (
	LookPause    = 20 * time.Millisecond
	LongestPause = 500 * time.Millisecond
)

// Pause returns the pause until the next look at processes, after looks since a time.
func Pause(since time.Time) time.Duration {
	return min(max(time.Since(since)/10, LookPause), LongestPause)
}

// Change is a change of the state of a command. The zero Change says nothing.
type Change struct {
	// Ended is true after the end of the command: by Signal, or else with Code.
	Ended bool
	// Stopped is the signal behind a stop of the command; zero without a stop.
	Stopped syscall.Signal
	// Code is the exit code of an ended command.
	Code int
	// Signal is the signal behind the end of the command; zero if the command ended by itself.
	Signal syscall.Signal
}

// Command is a command to run.
type Command struct {
	// Args are the command's name, a path or looked up in PATH, and its arguments.
	Args []string
	// Env is the environment. The mark of the job is added to the marks in [MarkVariable].
	Env []string
	// Keep are the connections that hold the locks. The guard of the job keeps these files open
	// until all processes of the job have ended, even if this process is killed. Start closes no
	// file of Keep.
	Keep []*os.File
}
