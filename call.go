package lockmesh

import (
	"context"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// call is one call of Lock, TryLock or a similar method while under way. The loop owns the call
// once it is fed to the node; the caller waits for the result.
type call struct {
	acquireOptions
	op     string
	ctx    context.Context
	since  vote.Micros
	number vote.Number // the number of the request, assigned by the node
	lease  *Lease      // filled by the loop if the call is granted; an upgrade has no use for it
	// ^capacity 1: the loop sends once, as its last access to the call, and never waits
	result chan result
}

// result is the outcome of a call: the call's lease was granted, or an error.
type result struct {
	granted bool
	err     error
}

// pools holds objects for reuse by calls. Each mesh has its own, since a channel made in a bubble
// of testing/synctest can't be used outside the bubble.
type pools struct{ calls, unlockWaits sync.Pool }

func (eng *engine) newCall(ctx context.Context, op string, w *acquireOptions) *call {
	c, _ := eng.pools.calls.Get().(*call)
	if c == nil {
		c = &call{result: make(chan result, 1)}
	}
	c.acquireOptions, c.op, c.ctx = *w, op, ctx
	if c.lease == nil && w.upgradeOf == nil {
		c.lease = new(Lease)
	}
	return c
}

// freeCall returns a call to the pool. There must be no other reference to the call. A lease that
// wasn't granted stays for the next call.
func (eng *engine) freeCall(c *call, granted bool) {
	unused := c.lease
	if granted {
		unused = nil
	}
	*c = call{result: c.result, lease: unused}
	eng.pools.calls.Put(c)
}

// fail answers the call with the reason for its waiting.
func (c *call) fail(w quorum.Wait) { c.result <- result{err: c.error(reasonOf(w.Reason), w.Text, nil)} }

func (c *call) error(reason error, text string, err error) error {
	return &Error{Op: c.op, Key: string(c.Key), Reason: reason, Text: text, Err: err}
}

// reasonOf returns the sentinel for the reason why a request waits. If nothing is known, too few
// voters have answered.
func reasonOf(r quorum.WaitReason) error {
	switch r {
	case quorum.WaitHeld:
		return ErrHeld
	case quorum.WaitRefused:
		return ErrRefused
	case quorum.WaitBusy:
		return ErrBusy
	case quorum.WaitUnfit:
		return ErrPermits
	case quorum.WaitClash:
		return ErrClash
	default:
		return ErrNoQuorum
	}
}

// acquire requests a key, unless ctx carries a lease of the key already, and waits for the outcome
// or for the end of ctx.
func (m *Mesh) acquire(ctx context.Context, op string, w acquireOptions) (*Lease, error) {
	if err := checkKey(op, string(w.Key)); err != nil {
		return nil, err
	}
	if err := w.complete(&m.cfg); err != nil {
		return nil, withOp(err, op)
	}
	if w.waitSet && w.wait > 0 {
		w.Patience = w.wait
		limited, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer m.clocks.After(w.wait, func() { cancel(errWaitTimeout) })()
		ctx = limited
	}
	if ctx.Err() == nil {
		if lease, err := m.reenter(ctx, op, &w); lease != nil || err != nil {
			return lease, err
		}
	}
	return m.request(ctx, op, &w)
}

// errWaitTimeout is the cancellation cause of a call after the time given by WithWait.
var errWaitTimeout error = waitTimeout{}

type waitTimeout struct{}

func (waitTimeout) Error() string { return "WithWait's time is over" }

// Is makes the error count as an exceeded deadline, like a context's.
func (waitTimeout) Is(target error) bool { return target == context.DeadlineExceeded }

// withOp sets the name of the failed call in an error.
func withOp(err error, op string) error {
	if e, ok := err.(*Error); ok {
		e.Op = op
	}
	return err
}

// request requests a key, and waits for the outcome or for the end of ctx.
func (eng *engine) request(ctx context.Context, op string, w *acquireOptions) (*Lease, error) {
	c := eng.newCall(ctx, op, w)
	if at, ok := ctx.Deadline(); ok && c.Patience == 0 {
		c.Patience = max(time.Until(at), 1)
	}
	if ctx.Err() != nil {
		// No voter was asked, so the state of the key is unknown.
		return nil, c.error(ErrNoQuorum, "the context had ended before any voter was asked",
			contextError(ctx))
	}
	owner, err := eng.loop.box.putRequest(c)
	if err != nil {
		return nil, c.error(err, "", nil)
	}
	if owner {
		eng.loop.runAsOwner()
	}
	// The loop answers every call it has taken, at the latest when the loop ends.
	var r result
	if done := ctx.Done(); done == nil {
		r = <-c.result
	} else {
		select {
		case r = <-c.result:
		case <-done:
			return eng.abandon(c)
		}
	}
	lease := c.granted(r)
	eng.freeCall(c, lease != nil)
	return lease, r.err
}

// granted returns the call's lease if the result says that the lease was granted; nil for an
// upgrade, which keeps the lease it had.
func (c *call) granted(r result) *Lease {
	if !r.granted || c.upgradeOf != nil {
		return nil
	}
	return c.lease
}

// abandon cancels a call after the end of its context.
func (eng *engine) abandon(c *call) (*Lease, error) {
	// Only the loop knows whether the grant came first. The loop cancels the call in either case,
	// so no lease is left behind.
	gave, why := make(chan error, 1), contextError(c.ctx)
	if eng.loop.box.post(false, func(now vote.Now) { gave <- eng.loop.abandon(now, c, why) }) {
		select {
		case err := <-gave:
			return nil, err
		case <-eng.loop.done:
		}
	}
	return c.closed()
}

// closed returns the answer given by the loop before its end, or else ErrClosed.
func (c *call) closed() (*Lease, error) {
	select {
	case r := <-c.result:
		return c.granted(r), r.err
	default:
		return nil, c.error(ErrClosed, "", nil)
	}
}
