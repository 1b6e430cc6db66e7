package lockmesh

import "context"

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
