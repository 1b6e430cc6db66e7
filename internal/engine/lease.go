package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Lease is a lease as the loop knows it. The zero value is a lease not granted yet.
//
// There may be a million leases, and most need only the first fields: anything that costs memory is
// created on first use.
type Lease struct {
	loop     *loop
	key      vote.Key
	number   vote.Number // owned by the loop
	token    atomic.Uint64
	validity atomic.Pointer[groupValidity]
	options  *leaseOptions // the effects of options; nil for most leases

	values         context.Context             // the context given to Lock, or its Observation
	endCause       atomic.Pointer[error]       // the result of Err; nil while the lease is held
	base           atomic.Pointer[BaseContext] // the context that ends with the lease
	revokeRequests atomic.Pointer[Revocations]
	// the waiting Unlock; or, once no report about the lease is to come, unlockDone or an answered
	// unlockWait
	waiter  atomic.Pointer[unlockWait]
	pending *pendingOps            // owned by the loop
	nested  atomic.Pointer[Nested] // the leases that have re-entered this lease

	mode atomic.Uint32
	slot vote.Slot
	kept bool // owned by the loop: the end of the node doesn't release the lease
}

// Nested are the leases that have re-entered a lease. The loop calls the methods, and so do the
// callers of the lease.
type Nested interface {
	// EndAll ends all nested leases, and reports whether some still held the key.
	EndAll(cause error) (held bool)
	// HoldKey reports whether nested leases hold the key although the lease has ended.
	HoldKey() bool
	// ReadersEnd returns why readers to which the lease had left the key hold the key no more; nil
	// if there were no such readers.
	ReadersEnd() error
}

// Revocations is a queue for the revoke requests of a lease. The loop calls Add, which must not
// block.
type Revocations interface{ Add(node, reason string) }

// leaseOptions is the additional state of a lease requested with options.
type leaseOptions struct {
	requested Request
	granted   vote.Instant // on the slow clock
	end       atomic.Int64 // see endsAt; the loop changes it
	byNode    atomic.Bool  // the node keeps the lease up and ends it; the loop changes byNode
	// While an upgrade of a lease of a set length is under way, the latest instant for KeptUntil:
	// the upgraded lease lasts as long, and perhaps not as long as an extension made meanwhile.
	// Otherwise Never. The loop changes it.
	keptAtMost atomic.Int64
	// how long after the grant the lease ends by itself; zero if never. Owned by the loop
	length time.Duration
	// the length with which the voters have granted the lease, or its last upgrade; zero if the
	// lease has no length of its own. Owned by the loop
	grantedLength time.Duration
}

// endsAt returns the instant of the fast clock at which the lease is over, whatever its validity;
// Never for most leases.
func (a *leaseOptions) endsAt() vote.Instant { return vote.Instant(a.end.Load()) }

// BaseContext is a context that ends with a lease; the cause is then the result of Err.
type BaseContext struct {
	context.Context
	Cancel context.CancelCauseFunc
}

// groupValidity is the validity of a lease group: how long the leases of the group may be used. The
// loop writes until; any goroutine reads until.
type groupValidity struct {
	until atomic.Int64 // on the fast clock
	// leases is the number of leases with this validity. Owned by the loop.
	leases int
}

// begin makes the lease the result of a granted call.
func (l *Lease) begin(loop *loop, c *call, e *quorum.Event, validity *groupValidity, now vote.Now) {
	l.loop, l.key, l.values, l.slot, l.number = loop, c.Key, c.ctx, e.Slot, c.number
	if c.Observation != nil {
		l.values = c.Observation
	}
	if c.HasOptions {
		l.options = &leaseOptions{requested: c.Request, granted: now.Slow, grantedLength: c.Length}
		switch {
		case c.TTLByNode > 0:
			l.options.length = c.TTLByNode
			l.options.byNode.Store(true)
		case c.Fixed:
			// The votes end earlier, except those of an upgrade, which are newer than the lease.
			l.options.length = c.Length
		}
		l.options.keptAtMost.Store(int64(vote.Never))
		last := vote.Never
		if l.options.length > 0 {
			last = now.Fast.Add(l.options.length)
		}
		l.options.end.Store(int64(last))
	}
	if c.Value != nil {
		l.ensurePending().value = c.Value
	}
	l.token.Store(uint64(e.Token))
	l.mode.Store(uint32(c.Mode))
	l.validity.Store(validity)
	validity.leases++
}

// request returns what was requested with the lease.
func (l *Lease) request() Request {
	if l.options != nil {
		return l.options.requested
	}
	return Request{RequestOptions: quorum.RequestOptions{Spec: vote.Spec{Key: l.key, Mode: l.Mode()}}}
}

// keptFor returns how much longer the node keeps the key from others even if the lease is released.
func (l *Lease) keptFor(now vote.Now) time.Duration {
	if l.options == nil {
		return 0
	}
	return l.options.requested.MinHoldByNode - now.Slow.Sub(l.options.granted)
}

// isFixed reports whether the lease ends by itself, without action by the node.
func (l *Lease) isFixed() bool {
	return l.options != nil && l.options.requested.Fixed && !l.options.byNode.Load()
}

// Context returns the context that ends with the lease. The context has the values of the context
// given to Lock. The end of the latter bounds only the wait for the lock.
func (l *Lease) Context() *BaseContext {
	e := l.base.Load()
	if e == nil {
		e = &BaseContext{}
		e.Context, e.Cancel = context.WithCancelCause(context.WithoutCancel(l.values))
		if !l.base.CompareAndSwap(nil, e) {
			e.Cancel(nil)
			e = l.base.Load()
		}
	}
	// The goroutine that ended the lease may have looked for the context too early, and the creator
	// of the context may not have reached this line yet.
	if cause := l.endCause.Load(); cause != nil {
		e.Cancel(*cause)
	}
	return e
}

// move moves the lease to another validity; to is nil for an ended lease, which is then counted by
// no validity. The loop calls move.
func (l *Lease) move(to *groupValidity) {
	from := l.validity.Load()
	if from.leases--; from.leases == 0 {
		l.loop.unreferenced = true
	}
	if to != nil {
		to.leases++
		l.validity.Store(to)
	}
}

// Cause returns why the lease has ended, as far as noticed so far; nil while the lease hasn't
// ended. When Cause returns an error, the lease's context has ended.
func (l *Lease) Cause() error {
	cause := l.endCause.Load()
	if cause == nil {
		return nil
	}
	// The context is looked up only now: a goroutine that creates the context later sees the end by
	// itself.
	if own := l.base.Load(); own != nil {
		own.Cancel(*cause)
	}
	return *cause
}

// Deadline returns the time of the wall clock at which the lease ends unless it is renewed.
func (l *Lease) Deadline() time.Time {
	until := l.validUntil()
	if l.options != nil && l.options.byNode.Load() {
		until = l.options.endsAt() // the node keeps the lease up until then
	}
	return l.loop.clocks.Wall(until)
}

// KeptUntil returns the time of the wall clock until when the voters keep the key for the lease
// even if the node ends now.
func (l *Lease) KeptUntil() time.Time {
	atMost := vote.Never
	if l.options != nil { // read first: an upgrade may end between the two readings
		atMost = vote.Instant(l.options.keptAtMost.Load())
	}
	return l.loop.clocks.Wall(min(l.validUntil(), atMost))
}

func (l *Lease) validUntil() vote.Instant {
	until := vote.Instant(l.validity.Load().until.Load())
	if l.options != nil {
		until = min(until, l.options.endsAt())
	}
	return until
}

// isExpired reports whether the lease's time is over.
func (l *Lease) isExpired() bool {
	until := l.validUntil()
	for {
		// The clock is read after until, so that a pause between the two readings shows.
		now := l.loop.clocks.Fast()
		if now < until {
			return false
		}
		again := l.validUntil()
		if again == until {
			return true
		}
		// The lease was renewed meanwhile, in time: the core extends no ended lease.
		until = again
	}
}

// Causes of an end. (The cause of a lease is a pointer, so that an end allocates no memory.)
var causeLost, causeReleased error = errs.Lost, errs.Released

// end ends the lease and all leases that have re-entered it. end reports whether this call ended
// the lease, or nested leases that still held the key.
func (l *Lease) end(cause *error) bool {
	first := l.endCause.CompareAndSwap(nil, cause)
	if own := l.base.Load(); own != nil {
		own.Cancel(*l.endCause.Load())
	}
	if nested := l.nested.Load(); nested != nil && (*nested).EndAll(*cause) {
		return true
	}
	return first
}

// Err returns why the lease has ended; nil while it is held. Err reads the clock.
func (l *Lease) Err() error {
	if cause := l.Cause(); cause != nil {
		return cause
	}
	l.DropIfExpired()
	return l.Cause()
}

// DropIfExpired ends the lease, and nested leases that still hold the key, if the time is over. The
// loop may know of a renewal in time, but an error once returned must stay, so the loop releases
// the key.
func (l *Lease) DropIfExpired() {
	if l.isExpired() && l.end(&causeLost) {
		l.loop.box.post(false, func(now vote.Now) { l.loop.drop(now, l) })
	}
}

// isKeyReleased reports whether the key is no longer held, neither by the lease nor by nested
// leases.
func (l *Lease) isKeyReleased() bool {
	if l.Err() == nil {
		return false
	}
	nested := l.nested.Load()
	return nested == nil || !(*nested).HoldKey()
}

func (l *Lease) fail(f errs.Failure) error { return l.loop.fail(f) }

// Revocations returns the queue for the revoke requests of the lease.
func (l *Lease) Revocations() Revocations {
	if r := l.revokeRequests.Load(); r != nil {
		return *r
	}
	made := l.loop.api.NewRevocations()
	l.revokeRequests.CompareAndSwap(nil, &made)
	return *l.revokeRequests.Load()
}
