package engine

import (
	"context"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Request is what a call for a lock requests.
type Request struct {
	quorum.RequestOptions
	HasOptions bool // the call has options
	// TTLByNode is how long after the grant the node ends the lease; zero for never.
	TTLByNode time.Duration
	// MinHoldByNode is how long after the grant the node keeps the key from others even if the
	// lease is released.
	MinHoldByNode time.Duration
	Observation   *Observation // nil unless the request is observed
	upgradeOf     *Lease       // the lease to upgrade; nil for other calls
	endsAt        vote.Instant // when that lease was to end as the upgrade was requested
}

// call is one call of Lock, TryLock or a similar method while under way. The loop owns the call
// once it is fed to the node; the caller waits for the result.
type call struct {
	Request
	api    API
	op     string
	ctx    context.Context
	since  vote.Micros
	number vote.Number // the number of the request, assigned by the node
	// ^capacity 1: the loop sends once, as its last access to the call, and never waits
	result chan result
}

// result is the outcome of a call: a lease, or an error. After a granted upgrade both are nil: the
// caller has the lease.
type result struct {
	lease  *Lease
	handle any
	err    error
}

// pools holds objects for reuse by calls. Each node has its own, since a channel made in a bubble
// of testing/synctest can't be used outside the bubble.
type pools struct{ calls, unlockWaits sync.Pool }

func (eng *Engine) newCall(ctx context.Context, op string, r *Request) *call {
	c, _ := eng.pools.calls.Get().(*call)
	if c == nil {
		c = &call{result: make(chan result, 1)}
	}
	c.Request, c.api, c.op, c.ctx = *r, eng.cfg.API, op, ctx
	return c
}

// freeCall returns a call to the pool. There must be no other reference to the call.
func (eng *Engine) freeCall(c *call) {
	*c = call{result: c.result}
	eng.pools.calls.Put(c)
}

// answer answers the call. It is the loop's last access to the call.
func (c *call) answer(r result) {
	c.observeAnswer(r)
	c.result <- r
}

// fail answers the call with the reason for its waiting.
func (c *call) fail(w quorum.Wait) { c.answer(result{err: c.error(reasonOf(w.Reason), w.Text, nil)}) }

func (c *call) error(reason error, text string, err error) error {
	return c.api.Error(errs.Failure{Op: c.op, Key: string(c.Key), Reason: reason, Text: text, Err: err})
}

// refuse tells the observer, and returns, the error of a call that isn't answered by result.
func (c *call) refuse(reason error, text string, err error) error {
	failed := c.error(reason, text, err)
	c.Observation.refused(failed)
	return failed
}

// reasonOf returns the sentinel for the reason why a request waits. If nothing is known, too few
// voters have answered.
func reasonOf(r quorum.WaitReason) error {
	switch r {
	case quorum.WaitHeld:
		return errs.Held
	case quorum.WaitRefused:
		return errs.Refused
	case quorum.WaitBusy:
		return errs.Busy
	case quorum.WaitUnfit:
		return errs.Permits
	case quorum.WaitClash:
		return errs.Clash
	default:
		return errs.NoQuorum
	}
}

// Request requests a key, and waits for the outcome or for the end of ctx. It returns the handle of
// the granted lease.
func (eng *Engine) Request(ctx context.Context, op string, r *Request) (handle any, err error) {
	c := eng.newCall(ctx, op, r)
	if at, ok := ctx.Deadline(); ok {
		if left := max(time.Until(at), 1); c.Patience == 0 || left < c.Patience {
			c.Patience = left
		}
	}
	if ctx.Err() != nil {
		// No voter was asked, so the state of the key is unknown.
		return nil, c.refuse(errs.NoQuorum, "the context had ended before any voter was asked",
			errs.OfContext(ctx))
	}
	done := ctx.Done() // asked before the request is made: a panic would leave the request behind
	owner, err := eng.loop.box.putRequest(c)
	if err != nil {
		return nil, c.refuse(err, "", nil)
	}
	if owner {
		eng.loop.runAsOwner()
	}
	// The loop answers every call it has taken, at the latest when the loop ends.
	var got result
	if done == nil {
		got = <-c.result
	} else {
		select {
		case got = <-c.result:
		case <-done:
			return eng.abandon(c)
		}
	}
	eng.freeCall(c)
	return got.handle, got.err
}

// abandon cancels a call after the end of its context.
func (eng *Engine) abandon(c *call) (handle any, err error) {
	// Only the loop knows whether the grant came first. The loop cancels the call in either case,
	// so no lease is left behind.
	gave, ended := make(chan error, 1), errs.OfContext(c.ctx)
	if eng.loop.box.post(false, func(now vote.Now) { gave <- eng.loop.abandon(now, c, ended) }) {
		select {
		case err := <-gave:
			return nil, err
		case <-eng.loop.done:
		}
	}
	return c.closed()
}

// closed returns the answer given by the loop before its end, or else Closed.
func (c *call) closed() (handle any, err error) {
	select {
	case r := <-c.result:
		return r.handle, r.err
	default:
		return nil, c.error(errs.Closed, "", nil)
	}
}
