package engine

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// pendingOps holds the pending operations on a lease.
type pendingOps struct {
	upgrading  *call
	value      []byte // the newest value
	valueWaits []valueWait
	extensions []extension
	// stops the timer that ends a lease of a set length, or that releases a key kept from others
	stop func()
}

// ensurePending returns the lease's pending operations for a change. The loop calls
// ensurePending.
func (l *Lease) ensurePending() *pendingOps {
	if l.pending == nil {
		l.pending = &pendingOps{}
	}
	return l.pending
}

// pendingCall is a call of SetValue or Extend under way.
type pendingCall struct {
	// cause returns why the caller's lease, the outermost or one that has re-entered it, has ended;
	// nil while it is held.
	cause func() error
	done  chan<- error
}

// valueWait is a call of SetValue under way, for a version of the value.
type valueWait struct {
	pendingCall
	version uint64
}

// extension is a call of Extend under way, and until when of the fast clock the voters must have
// confirmed the lease.
type extension struct {
	pendingCall
	until vote.Instant
}

// confirmExtensions answers the calls of Extend that the voters have confirmed.
func (l *Lease) confirmExtensions(until vote.Instant) {
	if l.pending == nil {
		return
	}
	l.pending.extensions = slices.DeleteFunc(l.pending.extensions, func(e extension) bool {
		if e.until <= until {
			e.done <- nil
		}
		return e.until <= until
	})
}

// confirmValue answers the calls of SetValue with a value stored by a majority.
func (l *Lease) confirmValue(version uint64) {
	if l.pending == nil {
		return
	}
	l.pending.valueWaits = slices.DeleteFunc(l.pending.valueWaits, func(w valueWait) bool {
		if w.version <= version {
			w.done <- nil
		}
		return w.version <= version
	})
}

// completeUpgrade completes an upgrade: the exclusive lease takes the place of the shared lease.
func (l *loop) completeUpgrade(now vote.Now, c *call, token vote.Token, validity *groupValidity) {
	lease := c.upgradeOf
	if l.held.m[lease.number] != lease || lease.isKeyReleased() {
		// The caller owns the call again, and may reuse the call before the lease is dropped.
		lease.endUpgrade()
		l.node.Release(now, c.number)
		c.answer(result{err: lease.upgradeError(c, cmp.Or(lease.Cause(), error(errs.Lost)))})
		return
	}
	old := lease.number
	l.held.take(old)
	lease.number = c.number
	lease.token.Store(uint64(token))
	lease.mode.Store(uint32(vote.Exclusive))
	lease.move(validity)
	lease.endUpgrade() // after the move: see keptAtMost
	l.held.put(lease.number, lease)
	if a := lease.options; a != nil && a.length > 0 {
		a.grantedLength = c.Length
		a.length = a.endsAt().Sub(now.Fast) // the voters count it from the new grant
		l.scheduleEnd(now, lease)
		if len(lease.pending.extensions) > 0 || a.endsAt() > c.endsAt {
			// The lease was extended after the upgrade was requested, and the voters know the lease
			// by another number now.
			a.byNode.Store(true)
			_, until := l.node.Extend(now, lease.number, a.length, a.length)
			for i := range lease.pending.extensions {
				lease.pending.extensions[i].until = until
			}
		}
	}
	if b := lease.pending; len(b.valueWaits) > 0 || !bytes.Equal(b.value, c.Value) {
		// The value was set after the upgrade was requested; the voters know the lease by another
		// number now.
		version := l.node.SetValue(now, lease.number, b.value)
		for i := range b.valueWaits {
			b.valueWaits[i].version = version
		}
	}
	l.node.Release(now, old)
	c.answer(result{})
}

// endUpgrade notes that no upgrade is under way any more.
func (l *Lease) endUpgrade() {
	l.ensurePending().upgrading = nil
	if a := l.options; a != nil {
		a.keptAtMost.Store(int64(vote.Never))
	}
}

// upgradeError returns the error of an upgrade of an ended lease.
func (l *Lease) upgradeError(c *call, cause error) error {
	return l.EndError(c.op, cause, "the lease ended before it was upgraded")
}

// failPending answers the pending upgrade, value changes and extensions of an ended lease with the
// cause of its end. Nested readers may keep the key; the calls of these readers go on.
func (l *loop) failPending(now vote.Now, lease *Lease, cause error) {
	b := lease.pending
	if b == nil {
		return
	}
	// A nested lease that upgrades is no reader any more.
	if c := b.upgrading; c != nil && l.calls.take(c.number) == c {
		l.node.Release(now, c.number)
		c.answer(result{err: lease.upgradeError(c, cause)})
	}
	lease.endUpgrade()
	failed := func(op string, c pendingCall) bool {
		ended := c.cause()
		if ended != nil {
			c.done <- lease.EndError(op, ended, "")
		}
		return ended != nil
	}
	b.valueWaits = slices.DeleteFunc(b.valueWaits, func(w valueWait) bool { return failed("setvalue", w.pendingCall) })
	b.extensions = slices.DeleteFunc(b.extensions, func(e extension) bool { return failed("extend", e.pendingCall) })
}
