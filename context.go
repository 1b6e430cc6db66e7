package lockmesh

import (
	"context"
	"errors"
	"slices"

	"github.com/lockmesh/lockmesh/internal/engine"
)

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
func (l *Lease) during(ctx context.Context) (context.Context, func()) {
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

// carriesLease reports whether ctx comes from a lease of a node.
func carriesLease(ctx context.Context, eng *engine.Engine) bool {
	_, ok := ctx.Value(leaseKey{eng}).(leaseCarrier)
	return ok
}

// detachFromLeases returns a context that ends when ctx does, unless ctx was ended by one of the
// given leases, or by any lease if none are given: a caller unlocking a lease with the lease's own
// context doesn't mean to stop waiting when the lease ends. The caller's bounds on ctx still apply:
// the deadline and, for the context of [Mesh.Do], the end of the context given to Do. (If the
// caller ends ctx after the lease has, this end can't be seen; the wait is a TTL at most.) The
// caller must call the returned function.
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
		h, ok := at.Value(leaseKey{eng}).(leaseCarrier)
		if !ok {
			return false, nil
		}
		if h.endCause() == cause && (len(leases) == 0 || slices.ContainsFunc(leases, h.has)) {
			return true, h.caller()
		}
		at = h.parent()
	}
}
