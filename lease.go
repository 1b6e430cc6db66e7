package lockmesh

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Lease is a held lock. A lease renews itself until Unlock, or until the lease is lost. The methods
// may be called from any goroutine.
//
// An ended lease stays ended, and the first end decides whether the lease is lost or released.
//
// A lock requested with the context of a lease on the same key re-enters that lease: see
// [Lease.Context].
type Lease struct {
	mesh *Mesh
	key  vote.Key
	// nil for an outermost lease; of a nested lease's own fields, only own and unlocked count
	nested   *nested
	number   vote.Number // owned by the loop
	token    atomic.Uint64
	validity atomic.Pointer[groupValidity]
	options  *leaseOptions // the effects of options; nil for most leases

	// There may be a million leases, and most need only these fields: anything that costs memory is
	// created on first use.
	values         context.Context                // the context that was given to Lock, for its values
	endCause       atomic.Pointer[error]          // the result of Err; nil while the lease is held
	base           atomic.Pointer[baseContext]    // the context that ends with the lease
	revokeRequests atomic.Pointer[revokeRequests] // the revoke requests for the lease
	// the waiting Unlock; or, once no report about the lease is to come, unlockDone or an answered
	// unlockWait
	waiter    atomic.Pointer[unlockWait]
	pending   *pendingOps // owned by the loop
	reentered atomic.Pointer[reentries]

	mode     atomic.Uint32
	slot     vote.Slot
	unlocked atomic.Bool // Unlock was called
}

// nested is the state of a lease that has re-entered another lease.
type nested struct {
	root  *Lease // the outermost lease
	outer *Lease // the lease re-entered directly

	// Guarded by the lock of root's reentries:
	inner  int  // the number of held leases that have re-entered this lease
	reader bool // this lease outlives the leases around it
}

// leaseOptions is the additional state of a lease requested with options.
type leaseOptions struct {
	requested acquireOptions
	granted   vote.Instant // on the slow clock
	end       atomic.Int64 // see last; the loop changes it
	byNode    atomic.Bool  // the node keeps the lease up and ends it; the loop changes byNode
	// how long after the grant the lease ends by itself; zero if never. Owned by the loop
	length time.Duration
}

// endsAt returns the instant of the fast clock at which the lease is over, whatever its cover; Never
// for most leases.
func (a *leaseOptions) endsAt() vote.Instant { return vote.Instant(a.end.Load()) }

// pendingOps holds the pending operations on a lease.
type pendingOps struct {
	upgrading  *call
	value      []byte // the newest value
	valueWaits []valueWait
	extending  []chan<- error
	// stops the timer that ends a lease of a set length, or that releases a key kept from others
	stop func()
}

// baseContext is a context that ends with a lease; the cause is then the result of Err.
type baseContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// unlockWait is a call of Unlock waiting for the last report about the lease.
type unlockWait struct {
	done    chan struct{} // capacity 1
	outcome error         // the result of Unlock; written before the send to told
}

// unlockDone is the waiter of every lease that has ended without an error, once no report about the
// lease is to come.
var unlockDone unlockWait

// groupValidity is the validity of a lease group: how long the leases of the group may be used. The loop
// writes until; any goroutine reads until.
type groupValidity struct {
	until atomic.Int64 // on the fast clock
	// leases is the number of leases with this cover. Owned by the loop.
	leases int
}

func newLease(m *Mesh, c *call, e *quorum.Event, validity *groupValidity, now vote.Now) *Lease {
	l := &Lease{mesh: m, key: c.Key, values: c.ctx, slot: e.Slot, number: c.number}
	if c.hasOptions {
		l.options = &leaseOptions{requested: c.acquireOptions, granted: now.Slow}
		switch {
		case c.ttlByNode > 0:
			l.options.length = c.ttlByNode
			l.options.byNode.Store(true)
		case c.Fixed:
			// The votes end earlier, except those of an upgrade, which are newer than the lease.
			l.options.length = c.Length
		}
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
	return l
}

// ensurePending returns the lease's pending operations for a change. The loop calls more.
func (l *Lease) ensurePending() *pendingOps {
	if l.pending == nil {
		l.pending = &pendingOps{}
	}
	return l.pending
}

// acquireOptions returns the options with which the lease was requested.
func (l *Lease) acquireOptions() acquireOptions {
	if l.options != nil {
		return l.options.requested
	}
	return newAcquireOptions(string(l.key), vote.Mode(l.mode.Load()), false, nil)
}

// keptFor returns how much longer the node keeps the key from others even if the lease is released.
func (l *Lease) keptFor(now vote.Now) time.Duration {
	if l.options == nil {
		return 0
	}
	return l.options.requested.minHoldByNode - now.Slow.Sub(l.options.granted)
}

// isFixed reports whether the lease ends by itself, without action by the node.
func (l *Lease) isFixed() bool {
	return l.options != nil && l.options.requested.Fixed && !l.options.byNode.Load()
}

// context returns the context that ends with the lease. The context has the values of the context
// given to Lock. The end of the latter bounds only the wait for the lock.
func (l *Lease) context() context.Context {
	e := l.base.Load()
	if e == nil {
		e = &baseContext{}
		e.Context, e.cancel = context.WithCancelCause(context.WithoutCancel(l.values))
		if !l.base.CompareAndSwap(nil, e) {
			e.cancel(nil)
			e = l.base.Load()
		}
	}
	// The goroutine that ended the lease may have looked for the context too early, and the creator
	// of the context may not have reached this line yet.
	if cause := l.endCause.Load(); cause != nil {
		e.cancel(*cause)
	}
	return e
}

// move moves the lease to another cover; to is nil for an ended lease, which is then counted by no
// cover. The loop calls move.
func (l *Lease) move(to *groupValidity) {
	from := l.validity.Load()
	if from.leases--; from.leases == 0 {
		l.mesh.loop.unreferenced = true
	}
	if to != nil {
		to.leases++
		l.validity.Store(to)
	}
}

// Key returns the name of the lock.
func (l *Lease) Key() string {
	l.checkUsable("Lease.Key")
	return string(l.key)
}

// Token returns the fencing token of the lease, larger than the token of every earlier lease on the
// key; a token fits in 63 bits. Pass the token to the resource protected by the lock. The resource
// should refuse a token smaller than the largest token seen so far. The token changes only with
// [Lease.Upgrade].
func (l *Lease) Token() uint64 {
	l.checkUsable("Lease.Token")
	return l.root().token.Load()
}

// Mode returns how the lease shares its key. The mode changes with Downgrade and Upgrade, and
// becomes Shared when Unlock leaves the key to nested readers.
func (l *Lease) Mode() Mode {
	l.checkUsable("Lease.Mode")
	return Mode(l.root().mode.Load())
}

// Slot returns the number of the lease's permit of a semaphore, from 1; zero for other modes. No
// two leases have the same permit at a time.
func (l *Lease) Slot() int {
	l.checkUsable("Lease.Slot")
	return int(l.root().slot)
}

// Deadline returns when the lease ends unless it is renewed before. The deadline moves with each
// renewal, several times per TTL. The deadline of a lease [WithoutRenewal] is the lease's end,
// moved only by [Lease.Extend]. (The node keeps up a lease longer than MaxTTL; if the node can't,
// the lease is lost before the deadline.)
//
// To find out whether the lease is held, call Err rather than compare times: the deadline is a time
// of the wall clock, but another clock measures the lease.
func (l *Lease) Deadline() time.Time {
	l.checkUsable("Lease.Deadline")
	if root := l.root(); root.options != nil && root.options.byNode.Load() {
		// The node keeps the lease up until then.
		return l.mesh.clocks.Wall(root.options.endsAt())
	}
	return l.mesh.clocks.Wall(l.validUntil())
}

// Done returns a channel that is closed when the lease has ended. If the lease is lost, the channel
// is closed a little before another lease may get the key.
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
	root := l.root()
	if !root.isExpired() {
		return nil
	}
	// The loop may know of a renewal in time, but an error once returned must stay, so the loop
	// releases the key.
	if root.end(&errLost) {
		root.mesh.loop.box.post(false, func(now vote.Now) { root.mesh.loop.drop(now, root) })
	}
	return l.cause()
}

// cause returns why the lease has ended, as far as noticed so far; nil while the lease hasn't
// ended. When cause returns an error, the lease's context has ended.
func (l *Lease) cause() error {
	if l.nested != nil {
		return context.Cause(l.base.Load())
	}
	cause := l.endCause.Load()
	if cause == nil {
		return nil
	}
	// The context is looked up only now: a goroutine that creates the context later sees the end by
	// itself.
	if own := l.base.Load(); own != nil {
		own.cancel(*cause)
	}
	return *cause
}

func (l *Lease) validUntil() vote.Instant {
	l = l.root()
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
		now := l.mesh.clocks.Fast()
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

// Causes of an end.
var (
	errLost, errReleased = ErrLost, ErrReleased
)

// end ends the lease and all leases that have re-entered it. end reports whether this call ended
// the lease, or readers that still held the key.
func (l *Lease) end(cause *error) bool {
	if l.nested != nil {
		own := l.base.Load()
		if own.Err() != nil {
			return false
		}
		own.cancel(*cause)
		return context.Cause(own) == *cause
	}
	first := l.endCause.CompareAndSwap(nil, cause)
	if own := l.base.Load(); own != nil {
		own.cancel(*l.endCause.Load())
	}
	if open := l.reentered.Load(); open != nil && open.endAll(*cause) {
		return true
	}
	return first
}

// finish passes the outcome of the lease at the voters to Unlock. The loop calls finish once.
func (l *Lease) finish(outcome error) {
	over := &unlockDone
	if outcome != nil {
		over = &unlockWait{outcome: outcome}
	}
	if w := l.waiter.Swap(over); w != nil {
		w.outcome = outcome
		w.done <- struct{}{}
	}
}

// Unlock releases the key. Unlock returns nil once a majority of the voters has confirmed the
// release; a waiter on another node may get the key before.
//
// The lease is over at once, whatever Unlock returns, and Unlock never hangs. If ctx ends first, or
// has ended before the call, the release is sent nevertheless, and the error wraps ctx's error. If
// too few voters confirm within the TTL, the error is ErrNoQuorum; by then the lease has lapsed at
// the other voters. If the lease was lost before, the error is ErrLost; after Close, the error is
// ErrClosed. If Unlock was called before, or Leave has released the lease, the error is
// ErrReleased.
//
// ctx may be the lease's own context or a derived context, as in a function without another
// context. That context ends with the lease, but Unlock continues to wait, until ctx's deadline if
// there is one.
//
// Unlock of a nested lease leaves the lease around it held. Unlock of the outermost lease releases
// the key and ends all nested leases, except for readers. While nested readers are held
// ([Mesh.RLock] with the lease's context), Unlock leaves the key to the readers: the lease ends,
// other readers may share the key, and the last reader's Unlock releases the key. So a writer can
// become a reader without a moment in which it is neither, as with Downgrade.
func (l *Lease) Unlock(ctx context.Context) error {
	l.checkUsable("Lease.Unlock")
	checkContext(ctx, "Lease.Unlock")
	if over, err := l.beginUnlock(); over {
		return err
	}
	if l.mesh.carriesLease(ctx) { // otherwise Unlock allocates no memory
		patient, free := l.mesh.detachFromLeases(ctx, l)
		defer free()
		ctx = patient
	}
	return l.root().awaitRelease(ctx)
}

// beginUnlock ends the lease and has the loop release the key. If Unlock has nothing to wait for, over
// is true and err is the result of Unlock.
func (l *Lease) beginUnlock() (over bool, err error) {
	if l.unlocked.Swap(true) {
		cause := l.cause()
		if cause == nil { // the other call hasn't ended the lease yet
			cause = ErrReleased
		}
		return true, l.unlockError(cause)
	}
	if l.Err() != nil {
		return true, l.unlockError(l.cause())
	}
	if open := l.reentered.Load(); open != nil && open.leaveToReaders(l) {
		return true, l.leaveToReaders()
	}
	if !l.end(&errReleased) {
		return true, l.unlockError(l.cause())
	}
	if l.nested != nil && !l.nested.root.reentries().end(l) {
		return true, nil // other leases hold the key
	}
	if l.mesh.loop.box.putRelease(l.root()) {
		l.mesh.loop.runAsOwner()
	}
	return false, nil
}

// awaitRelease waits until a majority has confirmed the release, or nothing is left to wait for. It is
// called once per lease.
func (l *Lease) awaitRelease(ctx context.Context) error {
	if w := l.waiter.Load(); w != nil {
		return w.outcome
	}
	spare := &l.mesh.pools.unlockWaits
	w, _ := spare.Get().(*unlockWait)
	if w == nil {
		w = &unlockWait{done: make(chan struct{}, 1)}
	}
	told := func() error {
		outcome := w.outcome
		w.outcome = nil
		spare.Put(w)
		return outcome
	}
	if !l.waiter.CompareAndSwap(nil, w) {
		spare.Put(w)
		return l.waiter.Load().outcome
	}
	// The loop answers for every lease, at the latest when the loop ends.
	done := ctx.Done()
	if done == nil {
		<-w.done
		return told()
	}
	select {
	case <-w.done:
		return told()
	default: // a confirmed release counts, even after the end of ctx
	}
	select {
	case <-w.done:
		return told()
	case <-done:
		return &Error{
			Op: "unlock", Key: l.Key(), Text: "the lease is given up, but no majority has confirmed the release yet", Err: contextError(ctx),
		}
	}
}

// unlockError returns the error of a call that finds the lease ended for a reason.
func (l *Lease) unlockError(reason error) error {
	if errors.Is(reason, ErrClosed) {
		return &Error{Op: "unlock", Key: l.Key(), Reason: ErrClosed, Err: ErrLost}
	}
	var why *Error
	if errors.As(reason, &why) { // the lease was evicted
		return &Error{Op: "unlock", Key: l.Key(), Reason: why.Reason, Text: why.Text, Err: why.Err}
	}
	return &Error{Op: "unlock", Key: l.Key(), Reason: reason}
}

// notReleased returns the outcome of a release cut off by the end of the node.
func (l *Lease) notReleased() error {
	return &Error{Op: "unlock", Key: l.Key(), Reason: ErrClosed, Text: "no majority had confirmed the release by then"}
}

// unconfirmed returns the outcome of a release: an error if too few voters have confirmed it.
func (l *Lease) unconfirmed(w quorum.Wait) error {
	if w.Reason == quorum.WaitNone {
		return nil
	}
	return &Error{Op: "unlock", Key: l.Key(), Reason: reasonOf(w.Reason), Text: w.Text}
}
