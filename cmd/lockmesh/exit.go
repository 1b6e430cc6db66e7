package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/admin"
	"github.com/lockmesh/lockmesh/cmd/lockmesh/internal/job"
)

// The exit codes, most of them from sysexits.h. A command run by run or lead ends with a code of
// its own, or with 128 and its signal, and lockmesh passes the code on.
const (
	exitFailure  = 1   // an error of no other kind
	exitUsage    = 64  // unusable flags, keys or values
	exitNoQuorum = 69  // no majority of the voters answers, or no agent does
	exitHeld     = 75  // the lock is held, or the wait is over; -E has another code
	exitConfig   = 78  // a setting is wrong, or the agent doesn't allow the request
	exitLost     = 79  // a held lock was lost
	exitNotRun   = 126 // the command can't be run
	exitNotFound = 127 // there is no such command
	exitSignal   = 128 // plus the number of the signal
)

// exit is an error with the kind of the process's end.
type exit struct {
	code   int
	signal syscall.Signal // behind the end of the command or the wait, if any
	echo   bool           // the signal came from the terminal, and only the command has got the signal
	err    error          // the text for the user; nil without a text
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("the command has ended with code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// usage returns an error about the command line.
func usage(format string, args ...any) error {
	return &exit{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// misconfigured returns an error about a setting.
func misconfigured(format string, args ...any) error {
	return &exit{code: exitConfig, err: fmt.Errorf(format, args...)}
}

// codeOf returns the exit code for an error.
func codeOf(err error) int {
	var e *exit
	switch is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}; {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.code
	case is(job.ErrNotFound):
		return exitNotFound
	case is(job.ErrNotRun):
		return exitNotRun
	case is(lockmesh.ErrLost, lockmesh.ErrEvicted):
		return exitLost
	case is(lockmesh.ErrHeld):
		return exitHeld
	case is(lockmesh.ErrConfig, lockmesh.ErrRefused, lockmesh.ErrStateDir, admin.ErrUnauthorized, admin.ErrForbidden):
		return exitConfig
	case refutes(err): // the flags are usable, and the mesh is in another state
		return exitFailure
	case is(lockmesh.ErrKey, lockmesh.ErrOption, lockmesh.ErrPermits, admin.ErrRequest):
		return exitUsage
	case is(lockmesh.ErrNoQuorum, lockmesh.ErrClosed, lockmesh.ErrBusy, admin.ErrStopping, admin.ErrLimit, admin.ErrNoAnswer, errNoAgent, context.DeadlineExceeded):
		return exitNoQuorum
	}
	return exitFailure
}
