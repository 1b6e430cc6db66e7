package lockmesh

import (
	"context"
	"errors"
	"time"

	"github.com/lockmesh/lockmesh/internal/backoff"
	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/errs"
)

// leadPauseMin and leadPauseMax bound Lead's pause between two turns, so that a function that
// returns at once doesn't keep the voters busy. After a turn longer than leadPauseMax, the pause
// is leadPauseMin again.
const (
	leadPauseMin = 100 * time.Millisecond
	leadPauseMax = 10 * time.Second
)

// Lead calls f whenever this node leads, repeatedly, until ctx ends: Lead campaigns, calls f,
// resigns once f has returned, and campaigns again. So a lost leadership, a slow voter or a failed
// f costs this node a turn, never its candidacy. A turn is as with [Mesh.LeadOnce].
//
// Between two turns Lead pauses for up to 100 ms; after each turn shorter than 10 s the next pause
// is longer, up to 10 s. Lead logs each turn that ended in any other way than f returning nil, and
// each failed campaign.
//
// Lead returns once ctx has ended and f has returned. The error is ctx's, joined with the result of
// the turn that the end of ctx interrupted. Lead returns earlier only if no further try can
// succeed: [ErrClosed] when the mesh is closed or leaves, and [ErrKey], [ErrOption] or [ErrClash]
// for an invalid call. To end Lead from within f, cancel ctx. Options are those of Lock;
// [WithValue] shows others who leads.
func (m *Mesh) Lead(ctx context.Context, name string, f func(context.Context) error, opts ...Option) error {
	m.checkUsable("Mesh.Lead")
	checkContext(ctx, "Mesh.Lead")
	checkFunc(f != nil, "Mesh.Lead")
	pauses := backoff.Backoff{Least: leadPauseMin, Most: leadPauseMax}
	for {
		var failed error
		led := false
		began := m.eng.Clocks().Now().Slow
		err := m.LeadOnce(ctx, name, func(ctx context.Context) error {
			led, began = true, m.eng.Clocks().Now().Slow
			failed = f(ctx)
			return failed
		}, opts...)
		if ctx.Err() != nil {
			if led && err != nil && !errors.Is(err, ctx.Err()) {
				return errors.Join(err, &Error{Op: "lead", Key: name, Err: errs.OfContext(ctx)})
			}
			return &Error{Op: "lead", Key: name, Err: errs.OfContext(ctx)}
		}
		if m.eng.IsClosing() || m.leaving.Load() {
			return errors.Join(failed, &Error{Op: "lead", Key: name, Reason: ErrClosed})
		}
		if !led && (errors.Is(err, ErrKey) || errors.Is(err, ErrOption) || errors.Is(err, ErrClash)) {
			return err
		}
		if led && m.eng.Clocks().Now().Slow.Sub(began) > leadPauseMax {
			pauses.Reset()
		}
		pause := pauses.Pause()
		again := []any{"election", name, "error", err, "next_try_in", pause}
		switch {
		case !led:
			m.eng.Log().Warn("the campaign failed; this node campaigns again", again...)
		case errors.Is(err, ErrLost):
			m.eng.Log().Warn("the leadership was lost; this node campaigns again", again...)
		case failed != nil:
			m.eng.Log().Warn("the leader's function failed; this node campaigns again", again...)
		case err != nil:
			m.eng.Log().Warn("the resignation isn't confirmed; this node campaigns again", again...)
		}
		clock.Sleep(ctx, m.eng.Clocks(), pause, m.eng.Closing())
	}
}

// LeadOnce waits until this node leads, and then calls f, once: a single turn of [Mesh.Lead]. f's
// context ends when ctx ends or the leadership is lost, and f should return soon afterwards. As
// long as the lease holds, the next candidate leads only after f has returned, also when f panics.
// (A lost lease can't wait for f; fencing tokens, which [Mesh.Do] passes to its function, protect
// against this case.)
//
// The error joins the errors of f and of the resignation: [ErrLost] says that the leadership was
// lost while f ran, even if f returned nil. After any return this node is no candidate any more; to
// lead again, call [Mesh.Lead] instead. Options are those of Lock; [WithValue] shows others who
// leads.
func (m *Mesh) LeadOnce(ctx context.Context, name string, f func(context.Context) error, opts ...Option) error {
	m.checkUsable("Mesh.LeadOnce")
	checkContext(ctx, "Mesh.LeadOnce")
	checkFunc(f != nil, "Mesh.LeadOnce")
	return withOp(m.Do(ctx, name, func(ctx context.Context, _ *Lease) error { return f(ctx) }, opts...), "lead")
}
