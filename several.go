package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// LockAll waits until all the keys are held, or ctx ends: all or none. Keys that are named twice count once, and keys are asked for one after the other in
// the order of their bytes, whatever the order they are named in. So callers of LockAll never wait for each other in a circle. A caller that
// holds some key already and then asks for others can still do so, as with any lock; name them all in one call.
//
// Each key has a lease of its own, with its own token. If one of them is lost while a later one is still waited for, all are given back and the
// error is [ErrLost]; if the node dies, all its leases lapse within its TTL. With an error no lease is left behind, and the error names the
// key that failed; otherwise errors are as with [Mesh.Lock]. No keys at all are ErrKey.
func (m *Mesh) LockAll(ctx context.Context, keys ...string) (*Leases, error) {
	if len(keys) == 0 {
		return nil, &Error{Op: "lockall", Reason: ErrKey, Text: "no key is named"}
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(keys)))
	for _, key := range sorted {
		if err := checkKey("lockall", key); err != nil {
			return nil, err // before anything is locked
		}
	}
	all := &Leases{mesh: m}
	all.ctx, all.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	wait, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for _, key := range sorted {
		lease, err := m.acquire(wait, "lockall", newWish(key, vote.Exclusive, false, nil))
		if err == nil {
			all.add(lease)
			context.AfterFunc(lease.context(), func() { stop(ErrLost) })
		}
		if lost := all.Err(); lost != nil {
			err = &Error{Op: "lockall", Key: keyOf(lost), Reason: causeOf(lost), Text: fmt.Sprintf("it ended before %q was held", key), Err: closedOf(lost)}
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

// Leases are the locks that one call of [Mesh.LockAll] holds. They are over as a whole as soon as the first of them is. The methods may be
// called from any goroutine.
type Leases struct {
	mesh   *Mesh
	all    []*Lease // in order of their keys
	stops  []func() bool
	ctx    context.Context // ends with the first lease that does; its cause is what Err returns
	cancel context.CancelCauseFunc
}

func (l *Leases) add(lease *Lease) {
	l.all = append(l.all, lease)
	l.stops = append(l.stops, context.AfterFunc(lease.context(), func() { l.end(lease) }))
}

// end ends the whole with one of its leases.
func (l *Leases) end(lease *Lease) {
	cause := lease.cause()
	l.cancel(&Error{Op: "lease", Key: lease.Key(), Reason: causeOf(cause), Err: closedOf(cause)})
}

// Leases returns the leases in order of their keys. The caller owns the slice.
func (l *Leases) Leases() []*Lease { return slices.Clone(l.all) }

// Lease returns the lease of one of the keys; nil for any other key.
func (l *Leases) Lease(key string) *Lease {
	for _, lease := range l.all {
		if lease.Key() == key {
			return lease
		}
	}
	return nil
}

// Token returns the fencing number of one of the keys, see [Lease.Token]; zero, which is no token, for any other key.
func (l *Leases) Token(key string) uint64 {
	if lease := l.Lease(key); lease != nil {
		return lease.Token()
	}
	return 0
}

// Deadline returns when the first of the leases ends unless it is renewed until then; see [Lease.Deadline].
func (l *Leases) Deadline() time.Time {
	first := l.all[0].Deadline()
	for _, lease := range l.all[1:] {
		if d := lease.Deadline(); d.Before(first) {
			first = d
		}
	}
	return first
}

// Done returns a channel that is closed when the first of the leases has ended.
func (l *Leases) Done() <-chan struct{} { return l.ctx.Done() }

// Err returns nil while all the leases are held, and then, for ever, an error that names the key of the first that ended and is [ErrLost] or
// [ErrReleased]. It reads the clock itself, as [Lease.Err] does.
func (l *Leases) Err() error {
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

// Context returns a context that ends with the first of the leases that does; its cause is then what Err returns. It has the values of the context that
// the locks were asked with, and re-enters each of the keys: see [Lease.Context].
func (l *Leases) Context() context.Context { return &leasesContext{l.ctx, l} }

// Unlock gives all the keys back, in the reverse order of their keys, and waits as [Lease.Unlock] does, for all of them at once. The error joins
// those of the leases; it is ErrLost for those that were lost before, also when the others were given back in time.
func (l *Leases) Unlock(ctx context.Context) error {
	errs := make([]error, len(l.all))
	var wait []int
	for i, lease := range slices.Backward(l.all) {
		over, err := lease.giveUp()
		errs[i] = err
		if !over {
			wait = append(wait, i)
		}
	}
	_ = l.Err() // over as a whole, and nobody has to wait for a goroutine to see it
	for _, stop := range l.stops {
		stop()
	}
	for _, i := range wait {
		errs[i] = l.all[i].confirmed(ctx)
	}
	return errors.Join(errs...)
}

// abandon gives back what is held of a call that has failed. Nobody waits for the confirmations, as with any call that is taken back.
func (l *Leases) abandon() {
	for i, lease := range slices.Backward(l.all) {
		l.stops[i]()
		_, _ = lease.giveUp()
	}
	l.cancel(ErrReleased)
}

// leasesContext is a context that ends no later than the first of several leases.
type leasesContext struct {
	context.Context
	leases *Leases
}

// Err is not nil as soon as one of the leases has ended. Then Done is closed, too.
func (c *leasesContext) Err() error {
	_ = c.leases.Err()
	return c.Context.Err()
}

// Value returns the context itself, as [leaseContext.Value] does.
func (c *leasesContext) Value(key any) any {
	if w, ok := key.(carrier); ok && w.mesh == c.leases.mesh {
		return c
	}
	return c.Context.Value(key)
}

func (c *leasesContext) beyond() context.Context { return c.Context }

func (c *leasesContext) holds(key vote.Key) *Lease { return c.leases.Lease(string(key)) }

// keyOf returns the key that an error is about.
func keyOf(err error) string {
	if e, ok := err.(*Error); ok {
		return e.Key
	}
	return ""
}

// closedOf returns ErrClosed if that is why a lease has ended.
func closedOf(err error) error {
	if errors.Is(err, ErrClosed) {
		return ErrClosed
	}
	return nil
}
