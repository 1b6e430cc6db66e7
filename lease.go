package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/internal/engine"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Lease is a held lock. A lease renews itself until Unlock, or until the lease is lost. The methods
// may be called from any goroutine.
//
// An ended lease stays ended, and the first end decides whether the lease is lost or released.
//
// A lock requested with the context of a lease on the same key re-enters that lease: see
// [Lease.Context].
type Lease struct {
	nested *nested // nil for an outermost lease
	// the lease as the loop knows it; unused in a nested lease, which has the core of its root
	own      engine.Lease
	unlocked atomic.Bool // Unlock was called
}

func (l *Lease) checkUsable(method string) {
	checkUsable(l != nil && (l.nested != nil || l.own.IsGranted()), method, "Mesh.Lock")
}

// nested is the state of a lease that has re-entered another lease.
type nested struct {
	root  *Lease // the outermost lease
	outer *Lease // the lease re-entered directly
	ctx   *engine.BaseContext

	// Guarded by the lock of root's reentries:
	token    uint64 // of an open lease: at the re-entry, or after the last upgrade since
	reader   bool   // this lease outlives the leases around it
	upgrades int    // of a reader: upgrades under way or done, which make it end like a writer
	upgraded int    // of these, the upgrades done
	// inner is the first of the held leases that have re-entered this lease and end with it; next
	// and previous are the neighbors of this lease in the list of the lease around it.
	inner, next, previous *Lease
}

// core returns the lease as the loop knows it: that of the outermost lease.
func (l *Lease) core() *engine.Lease { return &l.root().own }

// Key returns the name of the lock.
func (l *Lease) Key() string {
	l.checkUsable("Lease.Key")
	return string(l.core().Key())
}

// Token returns the fencing token of the lease, larger than the token of every earlier lease on the
// key; a token fits in 63 bits. Pass the token to the resource protected by the lock. The resource
// should refuse a token smaller than the largest token seen so far. The token changes only with
// [Lease.Upgrade] of the lease, or of a lease on the same key that has re-entered the lease. The
// token of an ended lease doesn't change: readers that have re-entered the lease may still hold the
// key, and upgrade later.
func (l *Lease) Token() uint64 {
	l.checkUsable("Lease.Token")
	if r := l.root().openReentries(); r != nil {
		return r.tokenOf(l)
	}
	return l.core().Token()
}

// Mode returns how the lease shares its key. The mode changes with Downgrade and Upgrade, and
// becomes ModeShared when Unlock leaves the key to nested readers.
func (l *Lease) Mode() Mode {
	l.checkUsable("Lease.Mode")
	return Mode(l.core().Mode())
}

// Slot returns the number of the lease's permit of a semaphore, from 1; zero for other modes. No
// two leases have the same permit at a time.
func (l *Lease) Slot() int {
	l.checkUsable("Lease.Slot")
	return int(l.core().Slot())
}

// Deadline returns when the lease ends unless it is renewed before. The deadline moves with each
// renewal, several times per TTL. The deadline of a lease [WithoutRenewal] is the lease's end,
// moved only by [Lease.Extend]. (The node keeps up a lease longer than MaxTTL; if the node can't,
// the lease is lost before the deadline.)
//
// To find out whether the lease is held, call Err rather than compare times: the deadline is a time
// of the wall clock, but another clock measures the lease; of an ended lease it says nothing.
func (l *Lease) Deadline() time.Time {
	l.checkUsable("Lease.Deadline")
	return l.core().Deadline()
}

// KeptUntil returns until when the voters keep the key for the lease if they hear nothing more from
// this node: after a crash of this process the key may be another's from then on. It is never later
// than the Deadline, and earlier only for a lease that its node keeps up by itself: the lease or
// its minimum hold is, or was extended to be, longer than the voters promise. A program that grants
// its leases to other processes tells them this time. As with Deadline, it is one of the wall
// clock, and of an ended lease it says nothing.
func (l *Lease) KeptUntil() time.Time {
	l.checkUsable("Lease.KeptUntil")
	return l.core().KeptUntil()
}

// Done returns a channel that is closed when the lease has ended. If the lease is lost, the channel
// is closed a little before another lease may get the key; but after a sleep of the machine up to a
// fifth of the TTL later, while Err reports the loss at once.
func (l *Lease) Done() <-chan struct{} {
	l.checkUsable("Lease.Done")
	return l.context().Done()
}

// Err returns nil while the lease is held, and then always [ErrLost] or [ErrReleased]. Err reads
// the clock itself: after a stop of the process or a sleep of the machine, the first call finds the
// lease lost, before any timer fires. When Err returns an error, Done is closed.
//
// After [Mesh.Close] the lease is lost, and the error is ErrLost and ErrClosed; after [Mesh.Evict]
// the error is ErrLost and ErrEvicted.
func (l *Lease) Err() error {
	l.checkUsable("Lease.Err")
	if cause := l.cause(); cause != nil {
		return cause
	}
	l.core().DropIfExpired()
	return l.cause()
}

// cause returns why the lease has ended, as far as noticed so far; nil while the lease hasn't
// ended. When cause returns an error, the lease's context has ended.
func (l *Lease) cause() error {
	if l.nested != nil {
		return context.Cause(l.nested.ctx)
	}
	return l.own.Cause()
}

// context returns the context that ends with the lease.
func (l *Lease) context() *engine.BaseContext {
	if l.nested != nil {
		return l.nested.ctx
	}
	return l.own.Context()
}

// end ends the lease as released, and all leases that have re-entered it. end reports whether this
// call ended the lease, or readers that still held the key.
func (l *Lease) end() bool {
	if l.nested == nil {
		return l.own.End()
	}
	own := l.nested.ctx
	if own.Err() != nil {
		return false
	}
	own.Cancel(ErrReleased)
	return context.Cause(own) == ErrReleased
}

// Unlock releases the key. Unlock returns nil once a majority of the voters has confirmed the
// release; a waiter on another node may get the key before.
//
// The lease is over at once, whatever Unlock returns, and Unlock never hangs. If ctx ends first, or
// has ended before the call, the release is sent nevertheless, and the error wraps ctx's error; if
// ctx ends during the call, the error is also ErrNoQuorum. If too few voters confirm within the
// TTL, the error is ErrNoQuorum; by then the lease has lapsed at the other voters. If the lease was
// lost before, the error is ErrLost; after Close, the error is ErrClosed. If Unlock was called
// before, or Leave has released the lease, the error is ErrReleased.
//
// ctx may be the lease's own context or a derived context, as in a function without another
// context. That context ends with the lease, but Unlock continues to wait, until ctx's deadline if
// there is one.
//
// Unlock of a nested lease leaves the lease around it held. Unlock of the outermost lease releases
// the key and ends all nested leases, except for readers. While nested readers are held
// ([Mesh.RLock] with the lease's context, and neither upgraded nor about to be), Unlock leaves the
// key to the readers: the lease ends, other readers may share the key, and the last reader's Unlock
// releases the key. So a writer can become a reader without a moment in which it is neither, as
// with Downgrade.
func (l *Lease) Unlock(ctx context.Context) error {
	l.checkUsable("Lease.Unlock")
	checkNotNil(ctx, "Lease.Unlock")
	if over, err := l.beginUnlock(); over {
		return err
	}
	if eng := l.core().Engine(); carriesLease(ctx, eng) { // otherwise Unlock allocates no memory
		patient, free := detachFromLeases(guardContext(ctx, "Lease.Unlock"), eng, l)
		defer free()
		ctx = patient
	}
	return l.core().AwaitRelease(ctx)
}

// beginUnlock ends the lease and has the loop release the key. If Unlock has nothing to wait for,
// over is true and err is the result of Unlock.
func (l *Lease) beginUnlock() (over bool, err error) {
	if l.unlocked.Swap(true) {
		cause := l.cause()
		if cause == nil { // the other call hasn't ended the lease yet
			cause = ErrReleased
		}
		return true, l.core().UnlockError(cause)
	}
	if l.Err() != nil {
		return true, l.core().UnlockError(l.cause())
	}
	if l.nested == nil {
		if wait := l.endReentries(); wait != nil {
			return true, l.leaveToReaders(wait)
		}
	}
	if !l.end() {
		return true, l.core().UnlockError(l.cause())
	}
	if l.nested != nil {
		last, shared := l.nested.root.reentries().end(l)
		switch {
		case shared:
			return true, l.unlockShared(l.core().ShareAgain())
		case !last:
			return true, nil // other leases hold the key
		}
	}
	l.core().Release()
	return false, nil
}

// Mode says how a lease shares its key.
type Mode uint8

const (
	// ModeExclusive is the mode of the key's only lease; see [Mesh.Lock].
	ModeExclusive Mode = 1
	// ModeShared is the mode of a reader, beside other readers; see [Mesh.RLock].
	ModeShared Mode = 2
	// ModePermit is the mode of a permit, beside as many others as there are permits; see
	// [Mesh.Semaphore].
	ModePermit Mode = 3
)

func (m Mode) String() string { return vote.Mode(m).String() }

// MaxValueLen is the longest value of a lease in bytes. Every voter keeps the value in memory:
// a value is for an address or a few words.
const MaxValueLen = 4096

// SetValue changes the value shown to others with the lease, up to 4 KiB. It returns once a
// majority of the voters has the value: every later Inspect of the key shows this value or a newer
// value.
//
// Errors: ErrOption for a value that is too long; the error of Err if the lease has ended, or ends
// before; ErrClosed; ErrBusy; or ErrNoQuorum and ctx's error if ctx ends first, after which the
// value may still become visible. If ctx had ended before the call, the error is ctx's alone.
func (l *Lease) SetValue(ctx context.Context, value []byte) error {
	l.checkUsable("Lease.SetValue")
	checkContext(ctx, "Lease.SetValue")
	if len(value) > MaxValueLen {
		return &Error{Op: "setvalue", Key: l.Key(), Reason: ErrOption, Text: fmt.Sprintf("the value has %d bytes, more than %d", len(value), MaxValueLen)}
	}
	return l.core().SetValue(ctx, l.Err, append([]byte{}, value...))
}

// Extend moves the end of a lease [WithoutRenewal]: the lease lasts until d from now, or until its
// present end if that is later. Extend returns nil once a majority of the voters has confirmed the
// extension; then [Lease.Deadline] is the new end. If d is no longer than the length with which the
// lease was requested, the new end is up to 3 % sooner, as for the first end; the voters keep the
// key until d is over.
//
// If d is no longer than the length with which the lease was requested, the lease outlives a crash
// of its node until then, by that length at most. If d is longer, the node keeps the lease up until
// then, and if the node crashes, the lease ends within that length. After [Lease.Upgrade] the
// length is about the time that was left until the lease's end when Upgrade was called, and no less
// than MinTTL.
//
// Errors: ErrOption if d isn't positive, or if the lease renews itself and so has no end to move;
// the error of Err if the lease has ended, or ends before the voters have confirmed; ErrClosed;
// ErrBusy; ErrNoQuorum and ctx's error if ctx ends first, after which the lease may last longer or
// not. If ctx had ended before the call, the error is ctx's alone.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	l.checkUsable("Lease.Extend")
	checkContext(ctx, "Lease.Extend")
	wrong := func(text string) error { return &Error{Op: "extend", Key: l.Key(), Reason: ErrOption, Text: text} }
	switch {
	case d <= 0:
		return wrong(fmt.Sprintf("%v isn't a positive time from now; Unlock ends a lease", d))
	case l.core().RenewsItself():
		return wrong("the lease renews itself until it is unlocked; only a lease acquired " +
			"WithoutRenewal can be extended")
	}
	return l.core().Extend(ctx, l.Err, d)
}

// Context returns a context that ends with the lease; the cause ([context.Cause]) is then the error
// returned by Err. Err and [context.Cause] of this context read the clock, as [Lease.Err] does; for
// derived contexts they report the end once Done is closed. The context has the values of the
// context that was given to Lock, and no deadline, since the lease's deadline moves.
//
// A Lock or RLock of the same key with this context or a derived context succeeds at once: the call
// re-enters this lease and returns a lease with the same token. The inner lease ends at the latest
// with this lease; a reader's inner lease lasts until its own Unlock (see [Lease.Unlock]). So a
// function with a lock may call another function that takes the same lock. Options of a re-entering
// call are ignored.
func (l *Lease) Context() context.Context {
	l.checkUsable("Lease.Context")
	own := l.context()
	return &leaseContext{own, l, own.Cancel, nil}
}

// during returns a context that ends with the lease or with ctx, and a function to free its
// resources.
func (l *Lease) during(ctx context.Context) (*leaseContext, func()) {
	inner, cancel := context.WithCancelCause(ctx)
	own := l.context()
	stop := context.AfterFunc(own, func() { cancel(context.Cause(own)) })
	return &leaseContext{inner, l, cancel, ctx}, func() {
		stop()
		cancel(nil)
	}
}

// leaseContext is a context bounded by the life of a lease.
type leaseContext struct {
	context.Context
	lease  *Lease
	cancel context.CancelCauseFunc // of the embedded context
	from   context.Context         // the caller's context, if its end ends this context; else nil
}

// Err returns an error as soon as the lease has ended. Done is closed by then, too.
func (c *leaseContext) Err() error {
	if cause := c.lease.Err(); cause != nil {
		c.cancel(cause)
	}
	return c.Context.Err()
}

// leaseKey is the context key for the leases of a mesh. (A carrier is a single pointer, so a lookup
// allocates no memory.)
type leaseKey struct{ engine *engine.Engine }

// leaseCarrier is a context carrying leases.
type leaseCarrier interface {
	// leaseOf returns the lease of a key; nil if the context has none.
	leaseOf(key vote.Key) *Lease
	// parent returns the parent context, possibly ended by the leases, too.
	parent() context.Context
	// has reports whether the context carries a lease, or a lease of the same root.
	has(l *Lease) bool
	// endCause returns the error of the leases that ended the context; nil if they haven't.
	endCause() error
	// caller returns the caller's context, if its end also ends this context; nil if only leases
	// do.
	caller() context.Context
}

// carriesLease reports whether ctx comes from a lease of a node.
func carriesLease(ctx context.Context, eng *engine.Engine) bool {
	_, ok := ctx.Value(leaseKey{eng}).(leaseCarrier)
	return ok
}

// carries reports whether ctx, or a context above it, is of a given lease.
func carries(ctx context.Context, l *Lease) bool {
	for at := ctx; at != nil; {
		h, ok := at.Value(leaseKey{l.core().Engine()}).(leaseCarrier)
		if !ok {
			return false
		}
		if h.has(l) {
			return true
		}
		at = h.parent()
	}
	return false
}

// detachFromLeases returns a context that ends when ctx does, unless ctx was ended by one of the
// given leases, or by any lease if none are given: a caller unlocking a lease with the lease's own
// context doesn't mean to stop waiting when the lease ends. The caller's bounds on ctx still apply:
// the deadline and, for the context of [Mesh.Do], the end of the context given to Do. (If the
// caller ends ctx after the lease has, this end can't be seen; the wait is a TTL at most.) The
// caller passes a guarded context, and must call the returned function.
func detachFromLeases(ctx context.Context, eng *engine.Engine, leases ...*Lease) (context.Context, func()) {
	if !carriesLease(ctx, eng) {
		return ctx, func() {}
	}
	patient, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	free := func() { cancel(nil) }
	if at, ok := ctx.Deadline(); ok {
		timed, stop := context.WithDeadline(patient, at)
		patient, free = timed, func() { stop(); cancel(nil) }
	}
	var follow func(ctx context.Context)
	follow = func(ctx context.Context) {
		unhook := context.AfterFunc(ctx, func() {
			ours, beyond := endedBy(ctx, eng, leases)
			switch {
			case ours && beyond != nil:
				follow(beyond)
			case !ours && !errors.Is(ctx.Err(), context.DeadlineExceeded): // patient has it, too
				cancel(context.Cause(ctx))
			}
		})
		context.AfterFunc(patient, func() { unhook() })
	}
	follow(ctx)
	return patient, free
}

// endedBy reports whether ctx was ended by the end of a given lease, and returns the caller's
// context above the lease's context; nil if there is none.
func endedBy(ctx context.Context, eng *engine.Engine, leases []*Lease) (ours bool, beyond context.Context) {
	cause := context.Cause(ctx)
	for at := ctx; ; {
		// This goroutine isn't the application's, so a panic of a context would end the process.
		h, ok := guardedValue(at, leaseKey{eng}).(leaseCarrier)
		if !ok {
			return false, nil
		}
		if h.endCause() == cause && (len(leases) == 0 || slices.ContainsFunc(leases, h.has)) {
			return true, h.caller()
		}
		at = h.parent()
	}
}

// revokedMax is how many unread revoke requests are kept. More would add no information.
const revokedMax = 8

// revocations is the queue of the revoke requests for a lease.
type revocations chan Revocation

// Add queues a request, unless the queue is full. The loop calls Add.
func (r revocations) Add(node, reason string) {
	select {
	case r <- Revocation{Node: node, Reason: reason}:
	default:
	}
}

// Revocation is a request to release a lease.
type Revocation struct {
	Node   string // the requesting node
	Reason string // the reason given by the requester; may be empty
}

// Revoked returns a channel of the requests to release the lease, from [Mesh.Revoke] and from calls
// that wait with [WithRevoke]. They are only requests: the lease is held until it is unlocked or
// lost. The channel is never closed; use Done to learn of the end. When more than a few unread
// requests are waiting, further requests are dropped.
func (l *Lease) Revoked() <-chan Revocation {
	l.checkUsable("Lease.Revoked")
	return l.core().Revocations().(revocations)
}
