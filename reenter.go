package lockmesh

import (
	"context"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Re-entry: a Lock or RLock whose context comes from a lease on the same key is that lease once more. What the context carries is the permission; a
// plain context never re-enters, whichever goroutine has it.

// carrier is the key under which a context carries what is held of a mesh. (It is one pointer, so looking costs no memory.)
type carrier struct{ mesh *Mesh }

// holder is a context that carries leases.
type holder interface {
	// holds returns the lease of a key; nil if the context has none.
	holds(key vote.Key) *Lease
	// beyond returns the context that it was derived from.
	beyond() context.Context
}

// carried returns the lease of a key that ctx carries, the innermost; nil when it carries none.
func (m *Mesh) carried(ctx context.Context, key vote.Key) *Lease {
	for {
		h, ok := ctx.Value(carrier{m}).(holder)
		if !ok {
			return nil
		}
		if l := h.holds(key); l != nil {
			return l
		}
		ctx = h.beyond()
	}
}

// Value returns the context itself, to whoever in this package asks for what is held.
func (c *leaseContext) Value(key any) any {
	if w, ok := key.(carrier); ok && w.mesh == c.lease.mesh {
		return c
	}
	return c.Context.Value(key)
}

func (c *leaseContext) beyond() context.Context { return c.Context }

func (c *leaseContext) holds(key vote.Key) *Lease {
	if c.lease.key != key {
		return nil
	}
	return c.lease
}

// reenter returns the lease once more that ctx carries for a key; nil when it carries none.
func (m *Mesh) reenter(ctx context.Context, op string, w *wish) (*Lease, error) {
	if w.Mode == vote.Permit {
		return nil, nil // permits are many, and each Acquire takes one
	}
	outer := m.carried(ctx, w.Key)
	if outer == nil || outer.Mode() == Permit || !outer.held() {
		return nil, nil
	}
	if w.Mode == vote.Exclusive && outer.Mode() == Shared {
		return nil, &Error{Op: op, Key: string(w.Key), Reason: ErrClash,
			Text: "this context holds the key as a reader, so the call would wait for itself; use Upgrade"}
	}
	inner := &Lease{mesh: m, key: w.Key, nested: &nested{outer, outer.Depth() + 1}}
	own := &ending{}
	own.Context, own.cancel = context.WithCancelCause(outer.context())
	inner.own.Store(own)
	return inner, nil
}

// held reports whether the lease is held at this moment.
func (l *Lease) held() bool { return l.Err() == nil }

// root returns the lease that this one has re-entered, or itself.
func (l *Lease) root() *Lease {
	for l.nested != nil {
		l = l.nested.outer
	}
	return l
}

// Depth returns how often the key is held in each other by this lease: 1, and one more for each re-entry.
func (l *Lease) Depth() int {
	if l.nested == nil {
		return 1
	}
	return l.nested.depth
}
