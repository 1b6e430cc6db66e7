// Package errs has the errors that the API and the engine beneath it share. The API documents them.
package errs

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Sentinel is an error used only for comparison.
type Sentinel string

// The sentinels; package lockmesh exports each with an Err before its name.
const (
	Held       Sentinel = "the lock is held or rests after a lease, or an earlier request is queued"
	NoQuorum   Sentinel = "too few voters answer or count"
	Lost       Sentinel = "the lease is lost"
	Evicted    Sentinel = "the lease was evicted"
	Released   Sentinel = "the lease has been released"
	Closed     Sentinel = "the mesh is closed"
	Config     Sentinel = "the configuration is wrong"
	StateDir   Sentinel = "the state directory can't be used"
	NotLost    Sentinel = "a majority of the voters is reachable; nothing to recover"
	StillVoter Sentinel = "this node still is a voter"
	Refused    Sentinel = "the voters refuse this node"
	Key        Sentinel = "the key can't be used"
	Permits    Sentinel = "the numbers of permits differ"
	Clash      Sentinel = "the call would wait for itself"
	Option     Sentinel = "the options can't be used"
	NoLeader   Sentinel = "there is no leader"
	Busy       Sentinel = "too many calls are open"
)

func (s Sentinel) Error() string { return "lockmesh: " + string(s) }

// Text returns an error's text on a single line, without the package's name if the error is a
// sentinel.
func Text(err error) string {
	if s, ok := err.(Sentinel); ok {
		return string(s)
	}
	return strings.ReplaceAll(err.Error(), "\n", ", ")
}

// Failure describes a failed call. It has the fields of lockmesh.Error, which documents them.
type Failure struct {
	Op, Key string
	Reason  error
	Text    string
	Err     error
}

// OfContext returns the error of a context after its end, and the cause if the cause says more. A
// context of the application whose methods panic counts as canceled: a call whose context has ended
// must go on to give its request up.
func OfContext(ctx context.Context) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%w, and a method of the context panicked: %v", context.Canceled, fault)
		}
	}()
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == WaitTimeout {
		return cause // an exceeded deadline, not a cancellation by the caller
	}
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return errors.Join(err, cause)
}

// WaitTimeout is the cancellation cause of a call after the time given by WithWait.
var WaitTimeout error = waitTimeout{}

type waitTimeout struct{}

func (waitTimeout) Error() string { return "WithWait's time is over" }

// Is makes the error count as an exceeded deadline, like a context's.
func (waitTimeout) Is(target error) bool { return target == context.DeadlineExceeded }
