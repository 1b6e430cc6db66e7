package lockmesh

import (
	"context"

	"github.com/lockmesh/lockmesh/internal/errs"
)

// acquire requests a key, unless ctx carries a lease of the key already, and waits for the outcome
// or for the end of ctx.
func (m *Mesh) acquire(ctx context.Context, op string, w acquireOptions) (*Lease, error) {
	if err := checkKey(op, string(w.Key)); err != nil {
		return nil, err
	}
	if err := w.complete(&m.cfg); err != nil {
		return nil, withOp(err, op)
	}
	if w.waitSet && w.wait > 0 {
		w.Patience = w.wait
		limited, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer m.eng.Clocks().After(w.wait, func() { cancel(errs.WaitTimeout) })()
		ctx = limited
	}
	if ctx.Err() == nil {
		if lease, err := m.reenter(ctx, op, &w); lease != nil || err != nil {
			return lease, err
		}
	}
	lease, err := m.eng.Request(ctx, op, &w.Request)
	if err != nil {
		return nil, err
	}
	return lease.(*Lease), nil
}
