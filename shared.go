package lockmesh

import (
	"context"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// RLock waits until the key is held together with other readers, or ctx ends. A key has any number
// of readers at the same time, or one holder of [Mesh.Lock]. Requests are served in order of
// arrival: a reader that arrives after a waiting writer waits behind the writer, so neither
// starves. Errors are as with [Mesh.Lock].
//
// Each reader has its own token, larger than the token of every lease on the key granted before the
// reader's request.
//
// With the context of a lease on the same key, RLock succeeds at once. If the outer lease is
// unlocked before this reader, the key stays held, shared with other readers: so a writer becomes a
// reader. The token is then the writer's.
func (m *Mesh) RLock(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	m.checkUsable("Mesh.RLock")
	checkContext(ctx, "Mesh.RLock")
	return m.acquire(ctx, "rlock", newAcquireOptions(key, vote.Shared, false, opts))
}

// TryRLock requests the key together with other readers, without waiting: [ErrHeld] means that a
// writer holds the key or waits for it. Other errors are as with [Mesh.TryLock].
func (m *Mesh) TryRLock(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	m.checkUsable("Mesh.TryRLock")
	checkContext(ctx, "Mesh.TryRLock")
	return m.acquire(ctx, "tryrlock", newAcquireOptions(key, vote.Shared, true, opts))
}

// Downgrade turns an exclusive lease into a shared lease, without a moment in which the key isn't
// held: the voters then grant the key to waiting readers as well. The lease continues with its
// token. A shared lease stays shared.
//
// Errors: the error of Err if the lease has ended; ErrOption for a permit, which has no modes;
// ErrClosed after Close; or ctx's, after which the lease may be in either mode.
func (l *Lease) Downgrade(ctx context.Context) error {
	l.checkUsable("Lease.Downgrade")
	checkContext(ctx, "Lease.Downgrade")
	err := l.core().Downgrade(ctx, l.Err)
	if err == nil && l.nested != nil {
		l.root().reentries().makeReader(l)
	}
	return err
}

// Upgrade turns a shared lease into an exclusive lease as soon as all other readers have released
// theirs; the upgrade goes ahead of all waiting requests. The lease is held all the time, and has a
// new and larger token when Upgrade returns nil. An exclusive lease stays exclusive, and a lease
// without renewal keeps its end. [WithWait] and [WithRevoke] given to RLock aren't repeated: ctx
// alone limits the wait, and an upgrade asks no reader to give up. [WithMinHold] counts from the
// grant of the lease; but if the upgrade has to wait, the hold lasts longer by up to this wait.
//
// A reader that has re-entered a lease outlives that lease; but from the call of Upgrade until
// Upgrade fails or Downgrade succeeds, the reader ends with the outermost lease, as a writer does.
//
// A lease shares its key with all leases that have re-entered the lease. So Upgrade of a shared
// lease fails with [ErrClash] at once while another lease is held that has re-entered the same
// lease, unless the other is around the upgrading lease. While an upgrade waits, an RLock that
// would re-enter the lease fails with ErrClash, too. While the outermost lease is held, the key
// stays exclusive after Unlock of an upgraded reader; Downgrade shares the key. Once the outermost
// lease has left the key to readers, Unlock of an upgraded reader shares the key again if other
// readers remain.
//
// Two readers that both want to upgrade would wait for each other, so the later request fails with
// [ErrClash] at once: its caller should unlock and lock again. If ctx ends first, the error is as
// with [Mesh.Lock] and the lease stays shared. Other errors are as with Downgrade.
func (l *Lease) Upgrade(ctx context.Context) error {
	l.checkUsable("Lease.Upgrade")
	checkContext(ctx, "Lease.Upgrade")
	if err := l.Err(); err != nil {
		return l.core().EndError("upgrade", err, "")
	}
	root := l.root()
	switch mode := root.Mode(); {
	case mode == ModePermit:
		return &Error{Op: "upgrade", Key: l.Key(), Reason: ErrOption, Text: "a permit has no modes"}
	case mode == ModeExclusive && l.nested == nil:
		return nil
	}
	r := root.reentries()
	if r == nil { // Unlock has begun, and found no re-entry
		return root.own.Upgrade(ctx)
	}
	start, finish := r.beginUpgrade(l)
	switch start {
	case upgradeDone:
		return nil
	case upgradeEnded:
		return l.core().EndError("upgrade", l.cause(), "")
	case upgradeClash:
		return &Error{Op: "upgrade", Key: l.Key(), Reason: ErrClash,
			Text: "another lease that has re-entered the same lease is held; upgrade once it is unlocked"}
	}
	err := ErrClash // in case that ctx panics
	// After an error the lease stays shared, and outlives the leases around it as before.
	defer func() { finish(err) }()
	err = root.own.Upgrade(ctx)
	return err
}
