package lockmesh

import (
	"fmt"
	"strings"
)

// The errors of this package, for [errors.Is]. Each tells the caller what to do next; the numbers behind it are in the [Error] that
// wraps it.
var (
	// ErrHeld : somebody has the key, or stands before this request in its queue. Wait longer, or come back later.
	ErrHeld error = sentinel("somebody else has the key")

	// ErrNoQuorum : whether the key is free can't be known, since too few voters answer or count. It says nothing about the key.
	// Retrying helps once voters are back; the text says which are missing, and for how long a quiet one won't count yet.
	ErrNoQuorum error = sentinel("too few voters answer or count")

	// ErrLost : the lease ended before it was unlocked. Stop at once what it protects: another may hold the key already.
	ErrLost error = sentinel("the lease is lost")

	// ErrReleased : the lease was unlocked before, or given back by Leave. There is nothing left to do.
	ErrReleased error = sentinel("the lease has been released")

	// ErrClosed : the mesh was closed or has left. Join again for a new one.
	ErrClosed error = sentinel("the mesh is closed")

	// ErrConfig : the configuration is wrong. Each complaint says what to change.
	ErrConfig error = sentinel("the configuration is wrong")

	// ErrState : the state directory can't be used: another process has it, it is another node's, or what it says can't be trusted. The text says
	// what to do. The node doesn't start, since it might break what it has promised.
	ErrState error = sentinel("the state directory can't be used")

	// ErrNotLost : a majority of the voters answers, so there is no electorate to found again. Nothing was changed.
	ErrNotLost error = sentinel("a majority of the voters is there")

	// ErrVoter : the node has left while it still was a voter. The others go on counting it among those of whom they need a majority, until they
	// have voted it out.
	ErrVoter error = sentinel("this node still is a voter")

	// ErrRefused : so many voters refuse this node that no majority is left for it. Retrying doesn't help before somebody mends what the
	// text names: a value that must be the same on all nodes and isn't, a wrong secret, or another live process of the same name.
	ErrRefused error = sentinel("the voters refuse this node")

	// ErrKey : the key is empty, longer than 512 bytes, not UTF-8, or has control characters. Nothing was sent.
	ErrKey error = sentinel("the key can't be used")

	// ErrPermits : others use the semaphore with another number of permits, which the text names, or the number is out of range. Agree on one.
	ErrPermits error = sentinel("the numbers of permits differ")

	// ErrClash : the call would wait for itself: another reader waits to upgrade, and for this one to end; or the context holds the key as a reader. Unlock,
	// then lock anew.
	ErrClash error = sentinel("the call would wait for itself")

	// ErrOption : an option's value can't be used, or not with the others. The text says what to change. Nothing was sent.
	ErrOption error = sentinel("the options can't be used")

	// ErrNoLeader : nobody leads the election at this moment. Wait with Observe, or campaign.
	ErrNoLeader error = sentinel("nobody leads")

	// ErrBusy : this node has so many calls open that it takes no more. Nothing was sent. Slow down, then try again.
	ErrBusy error = sentinel("too many calls are open")
)

// sentinel is an error that is only compared. Its text has no prefix, so that [Error] can place it in a sentence.
type sentinel string

func (s sentinel) Error() string { return "lockmesh: " + string(s) }

// Error is what this package's calls fail with: a sentinel that tells what to do next, and the circumstances in words.
//
// [errors.Is] finds the sentinel and, when a context ended the call, the context's error and its cause.
type Error struct {
	// Op is the call that failed: "lock", "trylock", "unlock", "ready" and so on; "lease" when a lease itself ended.
	Op string
	// Key is the key of the lock; empty when the call is about none.
	Key string
	// Reason is one of the sentinels of this package, or nil when only the context ended the call.
	Reason error
	// Text has the numbers, such as "1 of 3 voters counts: b quiet for 6.2s, c unreachable". It may be empty.
	Text string
	// Err is what else went wrong: the ended context's error, for one. It may be nil.
	Err error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("lockmesh: ")
	b.WriteString(e.Op)
	if e.Key != "" {
		fmt.Fprintf(&b, " %q", e.Key)
	}
	if e.Reason != nil {
		b.WriteString(": " + bare(e.Reason))
	}
	if e.Text != "" {
		b.WriteString(": " + e.Text)
	}
	if e.Err != nil {
		b.WriteString(": " + bare(e.Err))
	}
	return b.String()
}

// bare is an error's text on one line, and without the package's name if it is a sentinel.
func bare(err error) string {
	if s, ok := err.(sentinel); ok {
		return string(s)
	}
	return strings.ReplaceAll(err.Error(), "\n", ", ")
}

// Unwrap returns the reason and the other error, for [errors.Is] and [errors.As].
func (e *Error) Unwrap() []error {
	errs := make([]error, 0, 2)
	if e.Reason != nil {
		errs = append(errs, e.Reason)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}
