package lockmesh

import (
	"bytes"
	"context"
	"errors"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// RLock waits until the key is held together with other readers, or ctx ends. Any number of readers have it at once, or one holder of [Mesh.Lock].
// All wait in order of arrival: a reader that comes after a waiting writer waits behind it, so neither starves. Errors are as with Lock.
//
// Each reader's token is its own, and larger than that of every lease on the key that was granted before the reader asked.
func (m *Mesh) RLock(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	return m.acquire(ctx, "rlock", newWish(key, vote.Shared, false, opts))
}

// TryRLock asks for the key together with other readers and doesn't wait: [ErrHeld] says that a writer has it or waits for it. Other errors
// are as with TryLock.
func (m *Mesh) TryRLock(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	return m.acquire(ctx, "tryrlock", newWish(key, vote.Shared, true, opts))
}

// Downgrade turns an exclusive lease into a shared one, without a moment in which it is neither: readers that wait come in beside it. The lease
// goes on as it is, with its token. A lease that is shared already stays so.
//
// The error is what Err returns if the lease has ended; ErrOption for a permit, which has no modes; ErrClosed after Close; or ctx's, and
// then the lease may be either.
func (l *Lease) Downgrade(ctx context.Context) error {
	l = l.root()
	return l.inLoop(ctx, "downgrade", func(now vote.Now, done chan<- error) {
		switch l.Mode() {
		case Permit:
			done <- &Error{Op: "downgrade", Key: l.Key(), Reason: ErrOption, Text: "a permit has no modes"}
			return
		case Exclusive:
			l.mesh.loop.node.Share(now, l.number)
			l.mode.Store(uint32(Shared))
		}
		done <- nil
	})
}

// Upgrade turns a shared lease into an exclusive one, as soon as all other readers have given theirs back; it goes before all who wait. The lease
// is held all the time, and has a new and larger token when Upgrade returns nil. A lease that is exclusive already stays so, and one that is to end by
// itself ends when it would have ended.
//
// Of two readers that want to upgrade, each waits for the other. So the one that asked later gets [ErrClash] at once: it should
// unlock, and lock anew. When ctx ends first, the error is as with Lock and the lease is shared as before. Other errors are as with Downgrade.
func (l *Lease) Upgrade(ctx context.Context) error {
	l = l.root()
	if err := l.Err(); err != nil {
		return withOp(l.unlockError(err), "upgrade")
	}
	switch l.Mode() {
	case Exclusive:
		return nil
	case Permit:
		return &Error{Op: "upgrade", Key: l.Key(), Reason: ErrOption, Text: "a permit has no modes"}
	}
	w := l.wish()
	w.Mode, w.Try, w.raises, w.wait, w.waitSet = vote.Exclusive, false, l, 0, false
	_, err := l.mesh.ask(ctx, "upgrade", &w)
	return err
}

// inLoop has the loop do something with a lease that is held, and waits for the answer. f must answer on a channel with room for one.
func (l *Lease) inLoop(ctx context.Context, op string, f func(now vote.Now, done chan<- error)) error {
	loop := l.mesh.loop
	done := make(chan error, 1)
	err := loop.box.call(func(now vote.Now) {
		if cause := l.Err(); cause != nil || loop.held.m[l.number] != l {
			if cause == nil {
				cause = ErrLost
			}
			done <- &Error{Op: op, Key: l.Key(), Reason: cause}
			return
		}
		f(now, done)
	})
	if err != nil {
		return &Error{Op: op, Key: l.Key(), Reason: err}
	}
	select {
	case err := <-done:
		return err
	case <-loop.done:
		select {
		case err := <-done:
			return err
		default:
			return &Error{Op: op, Key: l.Key(), Reason: ErrClosed}
		}
	case <-ctx.Done():
		return &Error{Op: op, Key: l.Key(), Err: ended(ctx)}
	}
}

// raise puts an upgraded lease in the place of the shared one.
func (l *loop) raise(now vote.Now, c *call, token vote.Token, cov *cover) {
	lease := c.raises
	if l.held.m[lease.number] != lease || lease.Err() != nil {
		lease.more().upgrading = nil // the call is its caller's again, who may use it for something else before the lease is dropped
		l.node.Release(now, c.number)
		c.result <- result{err: c.error(ErrLost, "the lease ended before it was upgraded", nil)}
		return
	}
	old := lease.number
	l.held.take(old)
	lease.number, lease.more().upgrading = c.number, nil
	lease.token.Store(uint64(token))
	lease.mode.Store(uint32(Exclusive))
	lease.move(cov)
	l.held.put(lease.number, lease)
	if lease.isFixed() {
		if stop := lease.busy.stop; stop != nil {
			stop() // of an earlier upgrade
		}
		left := lease.apart.last.Sub(now.Fast)
		lease.busy.stop = l.clocks.after(left, func() { l.box.post(false, func(now vote.Now) { l.outlived(now, lease) }) })
	}
	if b := lease.busy; len(b.setting) > 0 || !bytes.Equal(b.value, c.Value) {
		// It was set since the upgrade was asked for; the voters know the lease by another number now.
		version := l.node.Set(now, lease.number, b.value)
		for i := range b.setting {
			b.setting[i].version = version
		}
	}
	l.node.Release(now, old)
	c.result <- result{lease: lease}
}

// forgetUpgrade answers the upgrade of a lease that has ended.
func (l *loop) forgetUpgrade(now vote.Now, lease *Lease, reason error) {
	b := lease.busy
	if b == nil {
		return
	}
	if c := b.upgrading; c != nil && l.calls.take(c.number) == c {
		l.node.Release(now, c.number)
		c.result <- result{err: c.error(reason, "the lease ended before it was upgraded", nil)}
	}
	b.upgrading = nil
	for _, w := range b.setting {
		w.done <- &Error{Op: "setvalue", Key: lease.Key(), Reason: reason}
	}
	b.setting = nil
}

// causeOf returns the sentinel behind the end of a lease.
func causeOf(err error) error {
	if errors.Is(err, ErrReleased) {
		return ErrReleased
	}
	return ErrLost
}
