package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// LockAll waits until all the keys are held, or ctx ends: all or none. A repeated key counts once.
// LockAll requests the keys in turn in the order of their bytes, regardless of the order of the
// arguments, so callers of LockAll never deadlock with each other. A caller that already holds a
// key and then requests others can still deadlock, as with any lock; name all keys in a single
// call.
//
// Each key has its own lease with its own token. If a lease is lost while a later key is still
// waited for, all are released and the error is [ErrLost], with ErrEvicted and the reason after
// [Mesh.Evict]; if the node crashes, all its leases expire within its TTL. On error no lease is
// left behind, and the error names the key that failed; otherwise errors are as with [Mesh.Lock]. A
// call without keys fails with ErrKey.
//
// LockAll takes no options. To bound the wait, use ctx's deadline. Options for a single lease
// ([WithTTL], [WithMinHold], [WithValue] and the others) have no meaning for several leases with
// different beginnings; to use an option for one of the keys, lock this key separately, in the
// order of the keys.
func (m *Mesh) LockAll(ctx context.Context, keys ...string) (*Leases, error) {
	m.checkUsable("Mesh.LockAll")
	ctx = guardContext(ctx, "Mesh.LockAll")
	if len(keys) == 0 {
		return nil, &Error{Op: "lockall", Reason: ErrKey, Text: "no key is named"}
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(keys)))
	for _, key := range sorted {
		if err := checkKey("lockall", key); err != nil {
			return nil, err // before any key is locked
		}
	}
	all := &Leases{mesh: m}
	all.ctx, all.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	wait, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for _, key := range sorted {
		lease, err := m.acquire(wait, "lockall", newAcquireOptions(key, vote.Exclusive, false, nil))
		if err == nil {
			all.add(lease)
			context.AfterFunc(lease.context(), func() { stop(ErrLost) })
		}
		if lost := all.Err(); lost != nil {
			err = endError("lockall", keyOf(lost), lost, fmt.Sprintf("the lease ended before %q was held", key))
			if errors.Is(lost, ErrReleased) && m.leaving.Load() {
				err = &Error{Op: "lockall", Key: key, Reason: ErrClosed, Text: "this node is leaving"}
			}
		}
		if err != nil {
			all.abandon()
			return nil, err
		}
	}
	return all, nil
}

// Leases are the leases of one call of [Mesh.LockAll]. The hold on all keys is over as soon as the
// first of the leases ends. The other keys stay locked until Unlock, since the caller may still be
// at work on them: call Unlock after a loss, too, best by defer. The methods may be called from any
// goroutine.
type Leases struct {
	mesh   *Mesh
	all    []*Lease // in order of their keys
	stops  []func() bool
	ctx    context.Context // ends with the first lease to end; its cause is Err's result
	cancel context.CancelCauseFunc
}

func (l *Leases) checkUsable(method string) {
	checkUsable(l != nil && l.mesh != nil, method, "Mesh.LockAll")
}

func (l *Leases) add(lease *Lease) {
	l.all = append(l.all, lease)
	l.stops = append(l.stops, context.AfterFunc(lease.context(), func() { l.end(lease) }))
}

// end ends the whole because a lease has ended.
func (l *Leases) end(lease *Lease) {
	l.cancel(endError("lease", lease.Key(), lease.cause(), ""))
}

// Leases returns the leases in the order of their keys. The caller owns the slice.
func (l *Leases) Leases() []*Lease {
	l.checkUsable("Leases.Leases")
	return slices.Clone(l.all)
}

// Lease returns the lease of the given key; nil if the key isn't among the leases.
func (l *Leases) Lease(key string) *Lease {
	l.checkUsable("Leases.Lease")
	for _, lease := range l.all {
		if lease.Key() == key {
			return lease
		}
	}
	return nil
}

// Token returns the fencing token of the given key, see [Lease.Token]; zero, never a valid token,
// if the key isn't among the leases.
func (l *Leases) Token(key string) uint64 {
	l.checkUsable("Leases.Token")
	if lease := l.Lease(key); lease != nil {
		return lease.Token()
	}
	return 0
}

// Deadline returns when the first of the leases ends unless renewed by then; see [Lease.Deadline].
func (l *Leases) Deadline() time.Time {
	l.checkUsable("Leases.Deadline")
	first := l.all[0].Deadline()
	for _, lease := range l.all[1:] {
		if d := lease.Deadline(); d.Before(first) {
			first = d
		}
	}
	return first
}

// Done returns a channel that is closed when the first of the leases has ended. The other keys stay
// locked until Unlock.
func (l *Leases) Done() <-chan struct{} {
	l.checkUsable("Leases.Done")
	return l.ctx.Done()
}

// Err returns nil while all the leases are held, and afterwards, permanently, an error that names
// the key of the first lease to end and is [ErrLost] or [ErrReleased], with ErrClosed or ErrEvicted
// as with [Lease.Err]. Err reads the clock, as [Lease.Err] does.
func (l *Leases) Err() error {
	l.checkUsable("Leases.Err")
	if l.ctx.Err() == nil {
		for _, lease := range l.all {
			if lease.Err() != nil {
				l.end(lease)
				break
			}
		}
	}
	return context.Cause(l.ctx)
}

// Context returns a context that ends with the first of the leases to end; the cause is then the
// error returned by Err. The context has the values of the context given to LockAll, and re-enters
// each of the keys: see [Lease.Context].
func (l *Leases) Context() context.Context {
	l.checkUsable("Leases.Context")
	return &leasesContext{l.ctx, l}
}

// Unlock releases all the keys, in the reverse order of the keys, and waits for all of them
// together, as [Lease.Unlock] does for a single key. The error joins the errors of the leases;
// leases lost earlier contribute ErrLost, even if the others were released in time. ctx may be the
// leases' own context, as with [Lease.Unlock].
func (l *Leases) Unlock(ctx context.Context) error {
	l.checkUsable("Leases.Unlock")
	checkNotNil(ctx, "Leases.Unlock")
	errs := make([]error, len(l.all))
	var wait []int
	for i, lease := range slices.Backward(l.all) {
		over, err := lease.beginUnlock()
		errs[i] = err
		if !over {
			wait = append(wait, i)
		}
	}
	_ = l.Err() // ends the whole now, without waiting for a goroutine
	for _, stop := range l.stops {
		stop()
	}
	ctx = guardContext(ctx, "Leases.Unlock")
	ctx, free := detachFromLeases(ctx, l.mesh.eng, l.all...)
	defer free()
	for _, i := range wait {
		errs[i] = l.all[i].core().AwaitRelease(ctx)
	}
	return errors.Join(errs...)
}

// abandon releases the leases of a failed call, without waiting for the confirmations, as with any
// canceled call.
func (l *Leases) abandon() {
	for i, lease := range slices.Backward(l.all) {
		l.stops[i]()
		_, _ = lease.beginUnlock()
	}
	l.cancel(ErrReleased)
}

// leasesContext is a context that ends with the first of several leases, or earlier.
type leasesContext struct {
	context.Context
	leases *Leases
}

// Err returns an error as soon as any of the leases has ended. Done is closed by then, too.
func (c *leasesContext) Err() error {
	_ = c.leases.Err()
	return c.Context.Err()
}

// Value returns the context itself, as [leaseContext.Value] does.
func (c *leasesContext) Value(key any) any {
	if w, ok := key.(leaseKey); ok && w.engine == c.leases.mesh.eng {
		return c
	}
	return c.Context.Value(key)
}

func (c *leasesContext) parent() context.Context { return c.Context }

func (c *leasesContext) caller() context.Context { return nil }

func (c *leasesContext) endCause() error { return context.Cause(c.leases.ctx) }

func (c *leasesContext) has(l *Lease) bool {
	return slices.ContainsFunc(c.leases.all, func(own *Lease) bool { return own.root() == l.root() })
}

func (c *leasesContext) leaseOf(key vote.Key) *Lease { return c.leases.Lease(string(key)) }

// keyOf returns the key named by an error.
func keyOf(err error) string {
	if e, ok := err.(*Error); ok {
		return e.Key
	}
	return ""
}
