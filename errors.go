package lockmesh

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lockmesh/lockmesh/internal/errs"
)

// The errors of this package, for [errors.Is]. Each error tells the caller what to do next; the
// [Error] that wraps it has the numbers.
var (
	// ErrHeld means the key is held, or rests after a lease ([WithMinHold], [WithDelay]), or an
	// earlier request is queued. A voter has said so, and a majority of the voters answers. The
	// error doesn't say which of the three: a voter tells a request only that it waits, and a
	// further question would slow down each TryLock. [Mesh.Inspect] shows it, and how long a key
	// still rests ([Info.Delayed]). Wait longer, or come back later. If the context ends within a
	// few milliseconds, the call may end before a voter can answer, and the error is ErrNoQuorum.
	ErrHeld error = errs.Held

	// ErrNoQuorum means too few voters answer or count, so the state of the key is unknown: the key
	// may be free or held. Retrying helps once voters are back; the text names the missing voters,
	// and says how long a quiet voter won't count yet.
	ErrNoQuorum error = errs.NoQuorum

	// ErrLost means the lease ended before it was unlocked. Stop the protected work at once:
	// another node may hold the key already.
	ErrLost error = errs.Lost

	// ErrEvicted means another node has ended the lease by [Mesh.Evict]; the text has the node and
	// its reason. ErrEvicted comes with ErrLost.
	ErrEvicted error = errs.Evicted

	// ErrReleased means the lease was unlocked before, or released by Leave or Stop. There is
	// nothing left to do.
	ErrReleased error = errs.Released

	// ErrClosed means the node takes no more locks: Close, Leave, Stop or Drain was called. Join
	// again for a new node.
	ErrClosed error = errs.Closed

	// ErrConfig means the configuration is wrong. The text says what to change.
	ErrConfig error = errs.Config

	// ErrStateDir means the state directory can't be used. Another process uses the directory, the
	// directory belongs to another node, its contents can't be trusted, or its disk doesn't answer.
	// The text says what to do. After Join the node doesn't start, since it might break its
	// promises; after Close, Stop and Leave the directory stays in use until its disk answers.
	ErrStateDir error = errs.StateDir

	// ErrNotLost means a majority of the voters is reachable, so there is no electorate to recover.
	// Nothing was changed.
	ErrNotLost error = errs.NotLost

	// ErrStillVoter means the node has left while still a voter. The node still counts towards the
	// number of voters needed for a majority, until the other voters vote the node out.
	ErrStillVoter error = errs.StillVoter

	// ErrRefused means so many voters refuse this node that no majority is left. Retrying doesn't
	// help before an operator fixes the problem named in the text: a value that must be the same on
	// all nodes and differs, a wrong secret, or another live process with the same name. With
	// Expect, Ready and Settled return ErrRefused at the end of their context if this process waits
	// for admission to a mesh, has found other processes, and was refused by all of them.
	ErrRefused error = errs.Refused

	// ErrKey means the key is empty, longer than 512 bytes, not UTF-8, or has control characters.
	// Nothing was sent.
	ErrKey error = errs.Key

	// ErrPermits means other users of the semaphore have another number of permits, named in the
	// text, or the number is out of range. Agree on a number.
	ErrPermits error = errs.Permits

	// ErrClash means the call would wait for itself. Either another reader waits to upgrade, and
	// thus for the end of this reader; or the context holds the key as a reader; or an upgrade
	// would make the key exclusive beside another lease that has re-entered the same lease (see
	// [Lease.Upgrade]). Unlock, then lock again.
	ErrClash error = errs.Clash

	// ErrOption means an option's value can't be used, or can't be combined with the others. The
	// text says what to change. Nothing was sent.
	ErrOption error = errs.Option

	// ErrNoLeader means the election has no leader at this moment. Wait with Observe, or campaign.
	ErrNoLeader error = errs.NoLeader

	// ErrBusy means this node has too many open calls to accept another. Nothing was sent. Slow
	// down, then try again.
	ErrBusy error = errs.Busy
)

// Error is the error of a failed call of this package: a sentinel that tells the caller what to do
// next, and the circumstances in words.
//
// [errors.Is] finds the sentinel and, if a context ended the call, the context's error and its
// cause.
type Error struct {
	// Op is the failed call: "lock", "trylock", "unlock", "ready" and so on; "lease" when a lease
	// itself ended.
	Op string
	// Key is the key of the lock; empty if the call concerns no key.
	Key string
	// Reason is a sentinel of this package, or nil if only the context ended the call.
	Reason error
	// Text has the numbers, such as "1 of 3 voters counts: b quiet for 6.2s, c unreachable". Text
	// may be empty.
	Text string
	// Err is a further cause, such as the error of an ended context. Err may be nil.
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
		b.WriteString(": " + errs.Text(e.Reason))
	}
	if e.Text != "" {
		b.WriteString(": " + e.Text)
	}
	if e.Err != nil {
		b.WriteString(": " + errs.Text(e.Err))
	}
	return b.String()
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

// withOp sets the name of the failed call in an error.
func withOp(err error, op string) error {
	if e, ok := err.(*Error); ok {
		e.Op = op
	}
	return err
}

// endError returns the error of a call that finds the lease of a key ended. The error has all that
// the cause says, such as who has evicted the lease. text says what the call couldn't do; it may be
// empty.
func endError(op, key string, cause error, text string) error {
	e := &Error{Op: op, Key: key, Reason: cause, Text: text}
	var why *Error
	switch {
	case errors.Is(cause, ErrClosed):
		e.Reason, e.Err = ErrClosed, ErrLost
	case errors.As(cause, &why): // the lease was evicted
		e.Reason, e.Text, e.Err = why.Reason, joinTexts(why.Text, text), why.Err
	}
	return e
}

// joinTexts joins two texts of an error, each of which may be empty.
func joinTexts(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
