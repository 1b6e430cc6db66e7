package lockmesh

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Lease is a lock that is held. It renews itself until Unlock, or until it is lost. Its methods may be called from any goroutine.
//
// A lease that has ended stays ended, and the first end decides: lost for ever, or released.
//
// A lock that was asked for with a context of another lease on the same key is that lease once more: see [Lease.Context].
type Lease struct {
	mesh   *Mesh
	key    vote.Key
	nested *nested     // nil unless it has re-entered another. Then only own and unlocked of its own count
	number vote.Number // the loop's
	token  atomic.Uint64
	cover  atomic.Pointer[cover]
	apart  *apart // how it differs from most; nil for most. Not changed any more

	// There may be a million leases, and most need no more than this: whatever costs memory is made when somebody asks for it.
	values context.Context          // that the lock was asked with
	ended  atomic.Pointer[error]    // what Err returns; nil while it is held
	own    atomic.Pointer[ending]   // the context that ends with it
	wishes atomic.Pointer[wishes]   // that others have about it
	waiter atomic.Pointer[goneWait] // the Unlock that waits; or atRest, or another that was answered, once nothing is left to hear of the lease
	busy   *busy                    // the loop's

	mode     atomic.Uint32
	slot     vote.Slot
	unlocked atomic.Bool // Unlock was called
}

// nested is what a lease has that has re-entered another.
type nested struct {
	outer *Lease
	depth int
}

// apart is how a lease differs that was asked for with options.
type apart struct {
	wish    wish
	granted vote.Instant // on the slow clock
	last    vote.Instant // on the fast clock: it is over then, however it is covered; Never for most
}

// busy is what goes on about a lease besides its being held.
type busy struct {
	upgrading *call
	value     []byte // the newest
	setting   []setWait
	stop      func() // stops the timer that ends a lease of a set length, or lets go of a key that is kept from others
}

// ending is a context that ends with a lease, and whose cause is then what Err returns.
type ending struct {
	context.Context
	cancel context.CancelCauseFunc
}

// goneWait is a call of Unlock that waits until nothing is left to hear of the lease.
type goneWait struct {
	told    chan struct{} // capacity 1
	outcome error         // what Unlock returns; written before told
}

// atRest stands for every lease of which nothing is left to hear, and whose end was as it should be.
var atRest goneWait

// cover is until when the leases of one group may be used. The loop writes it, everyone reads.
type cover struct {
	until atomic.Int64 // of the fast clock
	// leases counts those that point here; the loop owns it.
	leases int
}

func newLease(m *Mesh, c *call, e *quorum.Event, cov *cover, now vote.Now) *Lease {
	l := &Lease{mesh: m, key: c.Key, values: c.ctx, slot: e.Slot, number: c.number}
	if c.optional {
		l.apart = &apart{wish: c.wish, granted: now.Slow, last: vote.Never}
		switch {
		case c.ends > 0:
			l.apart.last = now.Fast.Add(c.ends)
		case c.Fixed: // its votes end earlier, but for those of an upgrade, which are newer than the lease
			l.apart.last = now.Fast.Add(c.Length)
		}
	}
	if c.Value != nil {
		l.more().value = c.Value
	}
	l.token.Store(uint64(e.Token))
	l.mode.Store(uint32(c.Mode))
	l.cover.Store(cov)
	cov.leases++
	return l
}

// more returns what goes on about the lease, to be changed. The loop calls it.
func (l *Lease) more() *busy {
	if l.busy == nil {
		l.busy = &busy{}
	}
	return l.busy
}

// wish returns what the lease was asked for with.
func (l *Lease) wish() wish {
	if l.apart != nil {
		return l.apart.wish
	}
	return newWish(string(l.key), vote.Mode(l.mode.Load()), false, nil)
}

// keptFor returns for how much longer the node keeps the key from others even if the lease is given back.
func (l *Lease) keptFor(now vote.Now) time.Duration {
	if l.apart == nil {
		return 0
	}
	return l.apart.wish.lasts - now.Slow.Sub(l.apart.granted)
}

// isFixed reports whether the lease is to end by itself.
func (l *Lease) isFixed() bool { return l.apart != nil && l.apart.wish.Fixed }

// context returns the context that ends with the lease. It has the values of the one that the lock was asked with; the end of that one bounds only the
// wait for the lock.
func (l *Lease) context() context.Context {
	e := l.own.Load()
	if e == nil {
		e = &ending{}
		e.Context, e.cancel = context.WithCancelCause(context.WithoutCancel(l.values))
		if !l.own.CompareAndSwap(nil, e) {
			e.cancel(nil)
			e = l.own.Load()
		}
	}
	// Whoever ended it may have looked for the context before it was there, and whoever made it may not have come to this line yet.
	if cause := l.ended.Load(); cause != nil {
		e.cancel(*cause)
	}
	return e
}

// move puts the lease under another cover, or under none that counts when it has ended. The loop calls it.
func (l *Lease) move(to *cover) {
	from := l.cover.Load()
	if from.leases--; from.leases == 0 {
		l.mesh.loop.bare = true
	}
	if to != nil {
		to.leases++
		l.cover.Store(to)
	}
}

// Key returns the name of the lock.
func (l *Lease) Key() string { return string(l.key) }

// Token returns the fencing number of the lease, larger than that of every earlier lease on the key; it fits 63 bits. Hand it to
// whatever the lock protects, which should refuse a token smaller than the largest it has seen. It changes only with [Lease.Upgrade].
func (l *Lease) Token() uint64 { return l.root().token.Load() }

// Mode returns how the lease shares its key. It changes with Downgrade and Upgrade.
func (l *Lease) Mode() Mode { return Mode(l.root().mode.Load()) }

// Slot returns which of a semaphore's permits the lease has, from 1; zero for other modes. No two leases have the same at one time.
func (l *Lease) Slot() int { return int(l.root().slot) }

// Deadline returns when the lease ends unless it is renewed until then. It moves as the lease is renewed, several times per TTL.
// Ask Err, rather than compare: the deadline is told by the wall clock and is measured by another.
func (l *Lease) Deadline() time.Time { return l.mesh.clocks.wall(l.until()) }

// Done returns a channel that is closed when the lease has ended; when it is lost, a little before another may get the key.
func (l *Lease) Done() <-chan struct{} { return l.context().Done() }

// Err returns nil while the lease is held, and then, for ever, [ErrLost] or [ErrReleased]. It reads the clock itself: a process
// that was stopped or a machine that slept finds its leases lost at the first call, before any timer fires. When Err returns an
// error, Done is closed.
//
// After [Mesh.Close] a lease is lost, and the error is ErrLost and ErrClosed.
func (l *Lease) Err() error {
	if cause := l.cause(); cause != nil {
		return cause
	}
	if l.nested != nil {
		_ = l.nested.outer.Err() // if that has ended, so has this
		return l.cause()
	}
	if !l.past() {
		return nil
	}
	// The loop may have heard of a renewal that came in time, but what was said once must stay: so it gives the key back.
	if l.end(&errLost) {
		l.mesh.loop.box.post(false, func(now vote.Now) { l.mesh.loop.drop(now, l) })
	}
	return l.cause()
}

// cause returns why the lease has ended, as far as anybody has noticed; nil while it hasn't. When it returns an error, the lease's context has ended.
func (l *Lease) cause() error {
	if l.nested != nil {
		return context.Cause(l.own.Load())
	}
	cause := l.ended.Load()
	if cause == nil {
		return nil
	}
	// Looked for only now: whoever makes it after this sees the end by itself.
	if own := l.own.Load(); own != nil {
		own.cancel(*cause)
	}
	return *cause
}

func (l *Lease) until() vote.Instant {
	l = l.root()
	until := vote.Instant(l.cover.Load().until.Load())
	if l.apart != nil {
		until = min(until, l.apart.last)
	}
	return until
}

// past reports whether the lease's instant has passed.
func (l *Lease) past() bool {
	until := l.until()
	for {
		// The clock is read last, so that a stop between the two readings shows.
		now := l.mesh.clocks.fast()
		if now < until {
			return false
		}
		again := l.until()
		if again == until {
			return true
		}
		until = again // it was renewed meanwhile, in time: the core extends nothing that has ended
	}
}

// Causes of an end.
var (
	errLost, errReleased = ErrLost, ErrReleased
)

// end ends the lease, unless it has ended before. It reports whether this was the end.
func (l *Lease) end(cause *error) bool {
	if l.nested != nil {
		own := l.own.Load()
		if own.Err() != nil {
			return false
		}
		own.cancel(*cause)
		return context.Cause(own) == *cause
	}
	first := l.ended.CompareAndSwap(nil, cause)
	if own := l.own.Load(); own != nil {
		own.cancel(*l.ended.Load())
	}
	return first
}

// finish says what has become of the lease at the voters. The loop calls it, once.
func (l *Lease) finish(outcome error) {
	over := &atRest
	if outcome != nil {
		over = &goneWait{outcome: outcome}
	}
	if w := l.waiter.Swap(over); w != nil {
		w.outcome = outcome
		w.told <- struct{}{}
	}
}

// Unlock gives the key back. It returns nil once a majority of the voters has confirmed; waiters elsewhere need not wait for that.
//
// The lease is over at once, whatever Unlock returns, and Unlock never hangs. If ctx ends first, or has ended before, the release
// is sent all the same, and the error wraps ctx's. If too few voters confirm within the TTL, the error is ErrNoQuorum; by then the
// lease has lapsed at the others. If the lease was lost before, the error is ErrLost, and after Close it is ErrClosed; if Unlock
// was called before, or Leave has given the lease back, ErrReleased.
//
// A lease that has re-entered another ends, and the other goes on: the key is given back when the outermost is unlocked, with which all
// within it end.
func (l *Lease) Unlock(ctx context.Context) error {
	if over, err := l.giveUp(); over {
		return err
	}
	return l.confirmed(ctx)
}

// giveUp ends the lease and has the loop release it. It reports whether Unlock has nothing to wait for, and what it then returns.
func (l *Lease) giveUp() (over bool, err error) {
	if l.unlocked.Swap(true) {
		cause := l.cause()
		if cause == nil { // the other call hasn't come to it yet
			cause = ErrReleased
		}
		return true, l.unlockError(cause)
	}
	if l.Err() != nil || !l.end(&errReleased) {
		return true, l.unlockError(l.cause())
	}
	if l.nested != nil {
		return true, nil // the key is given back with the outermost
	}
	if l.mesh.loop.box.release(l) {
		l.mesh.loop.work()
	}
	return false, nil
}

// confirmed waits until a majority has confirmed the release, or nothing is left to wait for. It is called once.
func (l *Lease) confirmed(ctx context.Context) error {
	if w := l.waiter.Load(); w != nil {
		return w.outcome
	}
	spare := &l.mesh.spares.waits
	w, _ := spare.Get().(*goneWait)
	if w == nil {
		w = &goneWait{told: make(chan struct{}, 1)}
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
	// The loop tells of every lease, at its end at the latest.
	done := ctx.Done()
	if done == nil {
		<-w.told
		return told()
	}
	select {
	case <-w.told:
		return told()
	default: // a release that is confirmed counts, though ctx has ended
	}
	select {
	case <-w.told:
		return told()
	case <-done:
		return &Error{
			Op: "unlock", Key: l.Key(), Text: "the lease is given up, but no majority has confirmed the release yet", Err: ended(ctx),
		}
	}
}

// unlockError is what a call is told that finds the lease at its end.
func (l *Lease) unlockError(reason error) error {
	if errors.Is(reason, ErrClosed) {
		return &Error{Op: "unlock", Key: l.Key(), Reason: ErrClosed, Err: ErrLost}
	}
	return &Error{Op: "unlock", Key: l.Key(), Reason: reason}
}

// notReleased is the outcome of a release that the end of the node has overtaken.
func (l *Lease) notReleased() error {
	return &Error{Op: "unlock", Key: l.Key(), Reason: ErrClosed, Text: "no majority had confirmed the release by then"}
}

// unconfirmed is the outcome of a release that too few voters have confirmed.
func (l *Lease) unconfirmed(w quorum.Wait) error {
	if w.Reason == quorum.WaitNone {
		return nil
	}
	return &Error{Op: "unlock", Key: l.Key(), Reason: reasonOf(w.Reason), Text: w.Text}
}
