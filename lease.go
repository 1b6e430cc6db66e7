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
	outer  *Lease // that it has re-entered; nil for most. Then only ctx, cancel and unlocked of its own count
	depth  int
	wish   wish // not changed any more
	slot   vote.Slot
	token  atomic.Uint64
	mode   atomic.Uint32
	number vote.Number // this and what follows up to cover is the loop's

	upgrading *call
	value     []byte // the newest
	setting   []setWait
	ending    func() // stops the timer that ends a lease of a set length, or lets go of a key that is kept from others

	granted vote.Instant // on the slow clock
	last    vote.Instant // on the fast clock: it is over then, however it is covered; Never for most
	revoked chan Revocation

	cover  atomic.Pointer[cover]
	ctx    context.Context // its end is the lease's end, and its cause is what Err returns
	cancel context.CancelCauseFunc

	unlocked atomic.Bool   // Unlock was called
	gone     chan struct{} // closed by the loop when nothing is left to hear of the lease
	outcome  error         // what Unlock returns; written before gone is closed
}

// cover is until when the leases of one group may be used. The loop writes it, everyone reads.
type cover struct {
	until atomic.Int64 // of the fast clock
	// leases counts those that point here; the loop owns it.
	leases int
}

func newLease(m *Mesh, c *call, e *quorum.Event, cov *cover) *Lease {
	l := &Lease{
		mesh: m, key: c.Key, depth: 1, wish: c.wish, value: c.Value, slot: e.Slot, number: c.number, gone: make(chan struct{}), revoked: make(chan Revocation, revokedMax), last: vote.Never,
	}
	l.token.Store(uint64(e.Token))
	l.mode.Store(uint32(c.Mode))
	// The values of the call's context go along, its end doesn't: it bounds the wait for the lock only.
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(c.ctx))
	l.cover.Store(cov)
	cov.leases++
	return l
}

// move puts the lease under another cover, or under none that counts when it has ended. The loop calls it.
func (l *Lease) move(to *cover) {
	l.cover.Load().leases--
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
func (l *Lease) Done() <-chan struct{} { return l.ctx.Done() }

// Err returns nil while the lease is held, and then, for ever, [ErrLost] or [ErrReleased]. It reads the clock itself: a process
// that was stopped or a machine that slept finds its leases lost at the first call, before any timer fires. When Err returns an
// error, Done is closed.
//
// After [Mesh.Close] a lease is lost, and the error is ErrLost and ErrClosed.
func (l *Lease) Err() error {
	if l.ctx.Err() == nil {
		if l.outer != nil {
			_ = l.outer.Err() // if that has ended, so has this
			return context.Cause(l.ctx)
		}
		if !l.past() {
			return nil
		}
		// The loop may have heard of a renewal that came in time, but what was said once must stay: so it gives the key back.
		if l.end(ErrLost) {
			l.mesh.loop.box.post(false, func(now vote.Now) { l.mesh.loop.drop(now, l) })
		}
	}
	return context.Cause(l.ctx)
}

func (l *Lease) until() vote.Instant {
	l = l.root()
	return min(vote.Instant(l.cover.Load().until.Load()), l.last)
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

// end ends the lease, unless it has ended before. It reports whether this was the end.
func (l *Lease) end(cause error) bool {
	if l.ctx.Err() != nil {
		return false
	}
	l.cancel(cause)
	return context.Cause(l.ctx) == cause
}

// finish says what has become of the lease at the voters. The loop calls it, once.
func (l *Lease) finish(outcome error) {
	l.outcome = outcome
	close(l.gone)
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
		if l.ctx.Err() == nil { // the other call hasn't come to it yet
			return true, l.unlockError(ErrReleased)
		}
		return true, l.unlockError(context.Cause(l.ctx))
	}
	if l.Err() != nil || !l.end(ErrReleased) {
		return true, l.unlockError(context.Cause(l.ctx))
	}
	if l.outer != nil {
		return true, nil // the key is given back with the outermost
	}
	if l.mesh.loop.box.release(l) {
		l.mesh.loop.work()
	}
	return false, nil
}

// confirmed waits until a majority has confirmed the release, or nothing is left to wait for.
func (l *Lease) confirmed(ctx context.Context) error {
	loop := l.mesh.loop
	select {
	case <-l.gone:
		return l.outcome
	default:
	}
	select {
	case <-l.gone:
		return l.outcome
	case <-loop.done:
		select {
		case <-l.gone:
			return l.outcome
		default:
			return l.notReleased()
		}
	case <-ctx.Done():
		return &Error{
			Op: "unlock", Key: l.Key(), Text: "the lease is given up, but no majority has confirmed the release yet", Err: ended(ctx),
		}
	}
}

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
