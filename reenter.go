package lockmesh

import (
	"context"

	"github.com/lockmesh/lockmesh/internal/engine"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Re-entry: a Lock or RLock with a context from a lease on the same key re-enters the lease. The
// context is the permission; a plain context never re-enters, whatever its goroutine.

// leaseKey is the context key for the leases of a mesh. (A carrier is a single pointer, so a lookup
// allocates no memory.)
type leaseKey struct{ engine *engine.Engine }

// leaseCarrier is a context carrying leases.
type leaseCarrier interface {
	// leaseOf returns the lease of a key; nil if the context has none.
	leaseOf(key vote.Key) *Lease
	// parent returns the parent context, possibly ended by the leases, too.
	parent() context.Context
	// has reports whether the context carries a lease, or a lease of the same root.
	has(l *Lease) bool
	// endCause returns the error of the leases that ended the context; nil if they haven't.
	endCause() error
	// caller returns the caller's context, if its end also ends this context; nil if only leases
	// do.
	caller() context.Context
}

// carriedLease returns the innermost lease of a key carried by ctx; nil if there is none.
func (m *Mesh) carriedLease(ctx context.Context, key vote.Key) *Lease {
	for {
		h, ok := ctx.Value(leaseKey{m.eng}).(leaseCarrier)
		if !ok {
			return nil
		}
		if l := h.leaseOf(key); l != nil {
			return l
		}
		ctx = h.parent()
	}
}

// Value returns the context itself for the key carrier, used only in this package.
func (c *leaseContext) Value(key any) any {
	if w, ok := key.(leaseKey); ok && w.engine == c.lease.core().Engine() {
		return c
	}
	return c.Context.Value(key)
}

func (c *leaseContext) parent() context.Context { return c.Context }

func (c *leaseContext) has(l *Lease) bool { return c.lease.root() == l.root() }

func (c *leaseContext) endCause() error { return c.lease.cause() }

func (c *leaseContext) caller() context.Context { return c.from }

func (c *leaseContext) leaseOf(key vote.Key) *Lease {
	if c.lease.core().Key() != key {
		return nil
	}
	return c.lease
}

// reenter re-enters the lease of a key carried by ctx; nil if there is none.
func (m *Mesh) reenter(ctx context.Context, op string, w *acquireOptions) (*Lease, error) {
	if w.Mode == vote.Permit {
		return nil, nil // each Acquire takes another permit
	}
	outer := m.carriedLease(ctx, w.Key)
	if outer == nil || outer.Mode() == Permit || !outer.held() {
		return nil, nil
	}
	clash := &Error{Op: op, Key: string(w.Key), Reason: ErrClash,
		Text: "this context holds the key as a reader, so the call would wait for itself; use Upgrade"}
	if w.Mode == vote.Exclusive && outer.Mode() == Shared {
		return nil, clash
	}
	inner := &Lease{nested: &nested{root: outer.root(), outer: outer, reader: w.Mode == vote.Shared, ctx: &engine.BaseContext{}}}
	var until context.Context = outer.context()
	if inner.nested.reader { // a reader outlives the leases around it
		until = context.WithoutCancel(until)
	}
	inner.nested.ctx.Context, inner.nested.ctx.Cancel = context.WithCancelCause(until)
	switch inner.nested.root.reentries().add(inner) {
	case entered:
		return inner, nil
	case enteredTooLate:
		return nil, nil
	default:
		return nil, clash
	}
}

// held reports whether the lease is held at this moment.
func (l *Lease) held() bool { return l.Err() == nil }

// root returns the outermost lease, entered again by this lease, or the lease itself. (No search is
// needed: a hundred thousand leases may be nested.)
func (l *Lease) root() *Lease {
	if l.nested != nil {
		return l.nested.root
	}
	return l
}

// Depth returns how often the key is held by this lease and all leases nested with it: 1 for the
// outermost alone, and one more for each re-entry not yet unlocked; 0 when all have ended.
func (l *Lease) Depth() int {
	l.checkUsable("Lease.Depth")
	root := l.root()
	n := 0
	if root.Err() == nil {
		n = 1
	}
	if open := root.openReentries(); open != nil {
		n += open.count()
	}
	return n
}
