package engine

import (
	"context"
	"time"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// IsGranted reports whether the lease was granted, and isn't a zero value.
func (l *Lease) IsGranted() bool { return l.loop != nil }

// Engine returns the engine of the lease's node.
func (l *Lease) Engine() *Engine { return l.loop.engine }

// KeepAtEnd has [Engine.Stop] and [Engine.Leave] not release the lease, which expires at the voters
// after the end of the node.
func (l *Lease) KeepAtEnd() {
	l.loop.box.post(false, func(vote.Now) { l.kept = true })
}

// Key returns the key.
func (l *Lease) Key() vote.Key { return l.key }

// Token returns the fencing token.
func (l *Lease) Token() uint64 { return l.token.Load() }

// Mode returns how the lease shares its key.
func (l *Lease) Mode() vote.Mode { return vote.Mode(l.mode.Load()) }

// Slot returns the number of the permit of a semaphore; zero for other modes.
func (l *Lease) Slot() vote.Slot { return l.slot }

// HasEnded reports whether the end of the lease was noticed.
func (l *Lease) HasEnded() bool { return l.endCause.Load() != nil }

// RenewsItself reports whether the lease is renewed until it is unlocked.
func (l *Lease) RenewsItself() bool {
	return l.options == nil || l.options.requested.TTLByNode == 0 && !l.options.requested.Fixed
}

// Nested returns the leases that have re-entered this lease; nil if there have been none.
func (l *Lease) Nested() Nested {
	if n := l.nested.Load(); n != nil {
		return *n
	}
	return nil
}

// SetNested sets the nested leases, unless they have been set before, and returns those that are
// set. (The argument is a pointer, so that SetNested allocates no memory.)
func (l *Lease) SetNested(n *Nested) Nested {
	l.nested.CompareAndSwap(nil, n)
	return *l.nested.Load()
}

// End ends the lease as released, and all leases that have re-entered it. It reports whether this
// call ended the lease, or nested leases that still held the key.
func (l *Lease) End() bool { return l.end(&causeReleased) }

// Release has the loop release the key. The lease has ended.
func (l *Lease) Release() {
	if l.loop.box.putRelease(l) {
		l.loop.runAsOwner()
	}
}

// EndShared ends the lease as released, unless it has ended, and marks the key as shared: nested
// leases hold the key from now on. Their caller then calls ShareEnded, and Cause to end the
// context.
func (l *Lease) EndShared() bool {
	if !l.endCause.CompareAndSwap(nil, &causeReleased) {
		return false
	}
	l.mode.Store(uint32(vote.Shared))
	return true
}

// ShareEnded has the voters share the key of a lease ended by EndShared. The caller of both holds a
// lock that keeps upgrades of nested leases out: an upgrade in between would be granted, and then
// the key be shared. wait waits until other readers may come in, or returns errs.Closed.
func (l *Lease) ShareEnded() (wait func() error) {
	return l.share(func(now vote.Now) {
		l.loop.failPending(now, l, errs.Released)
		l.shareKey(now)
	})
}

// MarkShared marks the key of a lease as shared: nested leases hold the key, and none of them needs
// the key alone any more. Their caller then calls ShareAgain.
func (l *Lease) MarkShared() { l.mode.Store(uint32(vote.Shared)) }

// ShareAgain makes the voters share a key marked by MarkShared. It returns once other readers may
// come in, or with errs.Closed.
func (l *Lease) ShareAgain() error {
	return l.share(l.shareKey)()
}

// shareKey tells the voters that the key is shared, unless an upgrade was granted since the key was
// marked. The loop calls shareKey.
func (l *Lease) shareKey(now vote.Now) {
	if l.Mode() == vote.Shared {
		l.loop.node.Downgrade(now, l.number)
	}
}

// share has the loop run f, unless the key is lost. It doesn't block; wait does.
func (l *Lease) share(f func(now vote.Now)) (wait func() error) {
	done := make(chan struct{})
	// The loop takes this call however many calls wait: with errs.Busy the voters would keep the
	// key exclusive until the last reader unlocks.
	if !l.loop.box.post(false, func(now vote.Now) {
		defer close(done)
		if l.loop.held.m[l.number] == l { // else lost, and the readers know
			f(now)
		}
	}) {
		return func() error { return errs.Closed }
	}
	return func() error {
		select {
		case <-done:
			return nil
		case <-l.loop.done:
			return errs.Closed
		}
	}
}

// Downgrade turns an exclusive lease into a shared lease. cause returns why the caller's lease,
// this or one that has re-entered it, has ended; nil while it is held.
func (l *Lease) Downgrade(ctx context.Context, cause func() error) error {
	return l.inLoop(ctx, "downgrade", "", cause, func(now vote.Now, done chan<- error) {
		switch l.Mode() {
		case vote.Permit:
			done <- l.fail(errs.Failure{Op: "downgrade", Key: string(l.key), Reason: errs.Option, Text: "a permit has no modes"})
			return
		case vote.Exclusive:
			l.loop.node.Downgrade(now, l.number)
			l.mode.Store(uint32(vote.Shared))
		}
		done <- nil
	})
}

// Upgrade turns a shared lease into an exclusive lease, and waits for the outcome.
func (l *Lease) Upgrade(ctx context.Context) error {
	r := l.request()
	r.Mode, r.Try, r.upgradeOf = vote.Exclusive, false, l
	r.Patience, r.Revoke, r.Reason = 0, false, "" // they were for the wait of the first call
	r.Observation = l.loop.engine.Ask(ctx, "upgrade", &r)
	_, err := l.loop.engine.Request(ctx, "upgrade", &r)
	return err
}

// SetValue changes the value shown with the lease, which the lease then owns. It returns once a
// majority of the voters has the value. cause is as for Downgrade.
func (l *Lease) SetValue(ctx context.Context, cause func() error, value []byte) error {
	const unconfirmed = "no majority of the voters has confirmed the value yet"
	return l.inLoop(ctx, "setvalue", unconfirmed, cause, func(now vote.Now, done chan<- error) {
		b := l.ensurePending()
		if c := b.upgrading; c != nil {
			// First, so that a voter that confirms the value shows the value with the upgraded
			// lease, too.
			l.loop.node.SetValue(now, c.number, value)
			c.Value = value
		}
		version := l.loop.node.SetValue(now, l.number, value)
		if version == 0 { // the node is about to report the lease's end
			done <- l.fail(errs.Failure{Op: "setvalue", Key: string(l.key), Reason: errs.Lost})
			return
		}
		b.value, b.valueWaits = value, append(b.valueWaits, valueWait{pendingCall{cause, done}, version})
	})
}

// Extend has the lease last until d from now, and waits for the voters. cause is as for Downgrade.
func (l *Lease) Extend(ctx context.Context, cause func() error, d time.Duration) error {
	const unconfirmed = "no majority of the voters has confirmed the extension yet"
	return l.inLoop(ctx, "extend", unconfirmed, cause, func(now vote.Now, done chan<- error) {
		l.extend(now, d, pendingCall{cause, done})
	})
}

// inLoop runs f in the loop if the lease is held, and waits for the answer. f must answer on done,
// which has room for one answer. unconfirmed says what the voters haven't confirmed if ctx ends
// first; empty if f waits for no voters.
func (l *Lease) inLoop(ctx context.Context, op, unconfirmed string, cause func() error, f func(now vote.Now, done chan<- error)) error {
	fail := func(reason, err error) error {
		return l.fail(errs.Failure{Op: op, Key: string(l.key), Reason: reason, Err: err})
	}
	done, canceled := make(chan error, 1), ctx.Done()
	// The end of the lease ends its own context, and then is the reason; and a context that had
	// ended before says nothing of the voters.
	select {
	case <-canceled:
		if ended := cause(); ended != nil {
			return l.EndError(op, ended, "")
		}
		return fail(nil, errs.OfContext(ctx))
	default:
	}
	err := l.loop.box.putCall(func(now vote.Now) {
		if ended := cause(); ended != nil || l.loop.held.m[l.number] != l {
			if ended == nil {
				ended = errs.Lost
			}
			done <- l.EndError(op, ended, "")
			return
		}
		f(now, done)
	})
	if err != nil {
		return fail(err, nil)
	}
	select {
	case err := <-done:
		return err
	case <-l.loop.done:
		select {
		case err := <-done:
			return err
		default:
			return fail(errs.Closed, nil)
		}
	case <-canceled:
		if ended := cause(); ended != nil {
			return l.EndError(op, ended, "")
		}
		if unconfirmed == "" {
			return fail(nil, errs.OfContext(ctx))
		}
		return l.loop.engine.unanswered(op, l.key, unconfirmed, errs.OfContext(ctx))
	}
}

// extend has the voters and the loop's timer keep the lease until d from now. The loop calls
// extend.
func (l *Lease) extend(now vote.Now, d time.Duration, c pendingCall) {
	loop, a := l.loop, l.options
	to := max(now.Fast.Add(d), a.endsAt())
	ends := a.length + to.Sub(a.endsAt())
	held, confirmed := loop.node.Extend(now, l.number, d, to.Sub(now.Fast))
	if !held { // the node is about to report the end of the lease
		c.done <- l.fail(errs.Failure{Op: "extend", Key: string(l.key), Reason: errs.Lost})
		return
	}
	if a.requested.Fixed && d > min(a.grantedLength, loop.engine.GrantLimit()) {
		a.byNode.Store(true)
	}
	a.length = ends
	a.end.Store(int64(to))
	loop.scheduleEnd(now, l)
	if confirmed == 0 {
		c.done <- nil
		return
	}
	b := l.ensurePending()
	b.extensions = append(b.extensions, extension{c, confirmed})
}
