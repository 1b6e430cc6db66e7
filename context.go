package lockmesh

import (
	"context"
	"errors"
)

// Context returns a context that ends with the lease: its cause ([context.Cause]) is then what Err returns. Its Err and Cause read
// the clock themselves, as [Lease.Err] does; those of contexts derived from it do once Done is closed. It has the values of the
// context that the lock was asked with. It has no deadline, since the lease's moves.
//
// A Lock or RLock of the same key that is given this context, or one derived from it, succeeds at once: it is this lease once more, with the same token,
// until the outermost is unlocked. So a function that locks may call another that locks the same. Options of such a call count for nothing.
func (l *Lease) Context() context.Context {
	own := l.context().(*ending)
	return &leaseContext{own, l, own.cancel}
}

// during returns a context that ends with the lease or with ctx, and the function that frees it.
func (l *Lease) during(ctx context.Context) (context.Context, func()) {
	inner, cancel := context.WithCancelCause(ctx)
	own := l.context()
	stop := context.AfterFunc(own, func() { cancel(context.Cause(own)) })
	return &leaseContext{inner, l, cancel}, func() {
		stop()
		cancel(nil)
	}
}

// leaseContext is a context that ends no later than a lease.
type leaseContext struct {
	context.Context
	lease  *Lease
	cancel context.CancelCauseFunc // of the embedded context
}

// Err is not nil as soon as the lease has ended. Then Done is closed, too.
func (c *leaseContext) Err() error {
	if cause := c.lease.Err(); cause != nil {
		c.cancel(cause)
	}
	return c.Context.Err()
}

// ended returns the error of a context that has ended, and its cause if that says more.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == errWaited {
		return cause // a deadline that was exceeded: nobody has cancelled anything
	}
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return errors.Join(err, cause)
}
