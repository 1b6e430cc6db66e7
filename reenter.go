package lockmesh

import (
	"context"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Re-entry: a Lock or RLock whose context comes from a lease on the same key is that lease once more. What the context carries is the permission; a
// plain context never re-enters, whichever goroutine has it.

// holding is the key under which a lease's context carries the lease.
type holding struct {
	mesh *Mesh
	key  vote.Key
}

// Value returns the lease that is held, to whoever in this package asks for it by its key.
func (c *leaseContext) Value(key any) any {
	if h, ok := key.(holding); ok && h.mesh == c.lease.mesh && h.key == c.lease.key {
		return c.lease
	}
	return c.Context.Value(key)
}

// reenter returns the lease once more that ctx carries for a key; nil when it carries none.
func (m *Mesh) reenter(ctx context.Context, op string, w *wish) (*Lease, error) {
	if w.Mode == vote.Permit {
		return nil, nil // permits are many, and each Acquire takes one
	}
	outer, _ := ctx.Value(holding{m, w.Key}).(*Lease)
	if outer == nil || outer.Mode() == Permit || !outer.held() {
		return nil, nil
	}
	if w.Mode == vote.Exclusive && outer.Mode() == Shared {
		return nil, &Error{Op: op, Key: string(w.Key), Reason: ErrClash,
			Text: "this context holds the key as a reader, so the call would wait for itself; use Upgrade"}
	}
	inner := &Lease{mesh: m, key: w.Key, outer: outer, depth: outer.depth + 1}
	inner.ctx, inner.cancel = context.WithCancelCause(outer.ctx)
	return inner, nil
}

// held reports whether the lease is held at this moment.
func (l *Lease) held() bool { return l.Err() == nil }

// root returns the lease that this one has re-entered, or itself.
func (l *Lease) root() *Lease {
	for l.outer != nil {
		l = l.outer
	}
	return l
}

// Depth returns how often the key is held in each other by this lease: 1, and one more for each re-entry.
func (l *Lease) Depth() int { return l.depth }
