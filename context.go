package lockmesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// A context is code of the application, and that code may be wrong: a method of the context may
// panic. In the caller's goroutine, before anything is sent, such a panic is the caller's affair.
// Later a panic would leave a request behind that no caller can release, and in a goroutine of
// this package, or of a context derived here, a panic would end the process. So a call has its
// context probed first (checkContext), and a call that derives contexts from its context, or hands
// its context to another goroutine, uses a guarded context (guardContext).

// guardedContext is the caller's context without panics. Done and Deadline are asked once, in the
// caller's goroutine; both always return the same, as package context demands.
type guardedContext struct {
	context.Context
	done        <-chan struct{}
	deadline    time.Time
	hasDeadline bool
}

// probeKey is a context key without a value.
type probeKey struct{}

// guardContext panics if a method was called with a nil context, or with a context whose methods
// panic. Otherwise it returns the context, guarded against later panics.
func guardContext(ctx context.Context, method string) context.Context {
	checkContext(ctx, method)
	if guarded, ok := ctx.(*guardedContext); ok {
		return guarded
	}
	_ = ctx.Value(probeKey{})
	g := &guardedContext{Context: ctx, done: ctx.Done()}
	g.deadline, g.hasDeadline = ctx.Deadline()
	return g
}

// guardGivingUp is guardContext for a call that gives up what the caller has, such as Leave. A
// context that panics must not keep a key held: the call proceeds as with an ended context, and
// rethrow, which the caller defers, then panics as the context did.
func guardGivingUp(ctx context.Context, method string) (guarded context.Context, rethrow func()) {
	checkNotNil(ctx, method)
	fault := func() (fault any) {
		defer func() { fault = recover() }()
		guarded = guardContext(ctx, method)
		return nil
	}()
	if fault == nil {
		return guarded, func() {}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return ended, func() { panic(fault) }
}

func (g *guardedContext) Done() <-chan struct{} { return g.done }

func (g *guardedContext) Deadline() (time.Time, bool) { return g.deadline, g.hasDeadline }

// Err returns an error if and only if Done is closed, whatever the caller's context does. Done is
// asked first: a context that ends after its Err has returned nil would be taken for canceled, even
// if its deadline has passed.
func (g *guardedContext) Err() (err error) {
	select {
	case <-g.done:
	default:
		return nil
	}
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%w, and its method Err panicked: %v", context.Canceled, fault)
		}
	}()
	return cmp.Or(g.Context.Err(), context.Canceled)
}

// Value returns nil if the caller's context panics.
func (g *guardedContext) Value(key any) any { return guardedValue(g.Context, key) }

// guardedValue returns a value of a context; nil if the context panics.
func guardedValue(ctx context.Context, key any) (value any) {
	defer func() {
		if recover() != nil {
			value = nil
		}
	}()
	return ctx.Value(key)
}
