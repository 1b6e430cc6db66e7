package lockmesh

import (
	"context"
	"sync"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// call is one Lock or TryLock under way. Its owner is the loop, once it is fed; the caller waits on result.
type call struct {
	wish
	op     string
	ctx    context.Context
	since  vote.Micros
	number vote.Number // given by the node
	result chan result // capacity 1: the loop writes once, as the last thing it does with the call, and never waits
}

type result struct {
	lease *Lease
	err   error
}

// spares are what calls need while they are under way, to be used again. They are a mesh's own: a channel that was made in a bubble of testing/synctest is
// of no use outside of it.
type spares struct{ calls, waits sync.Pool }

func (m *Mesh) newCall(ctx context.Context, op string, w *wish) *call {
	c, _ := m.spares.calls.Get().(*call)
	if c == nil {
		c = &call{result: make(chan result, 1)}
	}
	c.wish, c.op, c.ctx = *w, op, ctx
	return c
}

// freeCall gives a call back. Nobody else may know of it any more.
func (m *Mesh) freeCall(c *call) {
	*c = call{result: c.result}
	m.spares.calls.Put(c)
}

// fail answers the call with what kept it waiting.
func (c *call) fail(w quorum.Wait) { c.result <- result{err: c.error(reasonOf(w.Reason), w.Text, nil)} }

func (c *call) error(reason error, text string, err error) error {
	return &Error{Op: c.op, Key: string(c.Key), Reason: reason, Text: text, Err: err}
}

// reasonOf returns the sentinel for what stands between a request and its grant. Where nothing is known, too few voters have answered.
func reasonOf(r quorum.WaitReason) error {
	switch r {
	case quorum.WaitHeld:
		return ErrHeld
	case quorum.WaitRefused:
		return ErrRefused
	case quorum.WaitBusy:
		return ErrBusy
	case quorum.WaitUnfit:
		return ErrPermits
	case quorum.WaitClash:
		return ErrClash
	default:
		return ErrNoQuorum
	}
}

// acquire asks for a key, unless ctx holds it already, and waits for the outcome, or for the end of ctx.
func (m *Mesh) acquire(ctx context.Context, op string, w wish) (*Lease, error) {
	if err := checkKey(op, string(w.Key)); err != nil {
		return nil, err
	}
	if err := w.complete(&m.cfg); err != nil {
		return nil, withOp(err, op)
	}
	if w.waitSet && w.wait > 0 {
		limited, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer m.clocks.after(w.wait, func() { cancel(errWaited) })()
		ctx = limited
	}
	if ctx.Err() == nil {
		if lease, err := m.reenter(ctx, op, &w); lease != nil || err != nil {
			return lease, err
		}
	}
	return m.ask(ctx, op, &w)
}

// errWaited is the cause of the end of a call that has waited for as long as WithWait allows.
var errWaited error = waited{}

type waited struct{}

func (waited) Error() string { return "WithWait's time is over" }

// Is makes it a deadline that was exceeded, as that of a context.
func (waited) Is(target error) bool { return target == context.DeadlineExceeded }

// withOp names the call that has failed.
func withOp(err error, op string) error {
	if e, ok := err.(*Error); ok {
		e.Op = op
	}
	return err
}

// ask asks for a key and waits for the outcome, or for the end of ctx.
func (m *Mesh) ask(ctx context.Context, op string, w *wish) (*Lease, error) {
	c := m.newCall(ctx, op, w)
	if ctx.Err() != nil {
		// Nobody was asked, so nobody knows.
		return nil, c.error(ErrNoQuorum, "the context had ended before anyone was asked", ended(ctx))
	}
	turn, err := m.loop.box.ask(c)
	if err != nil {
		return nil, c.error(err, "", nil)
	}
	if turn {
		m.loop.work()
	}
	// The loop answers every call that it has taken, at its end at the latest.
	var r result
	if done := ctx.Done(); done == nil {
		r = <-c.result
	} else {
		select {
		case r = <-c.result:
		case <-done:
			return m.abandon(c)
		}
	}
	m.freeCall(c)
	return r.lease, r.err
}

// abandon takes a call back whose context has ended.
func (m *Mesh) abandon(c *call) (*Lease, error) {
	// From here on only the loop knows whether the grant came first. It takes the call back either way, so no lease is left behind.
	gave, why := make(chan error, 1), ended(c.ctx)
	if m.loop.box.post(false, func(now vote.Now) { gave <- m.loop.abandon(now, c, why) }) {
		select {
		case err := <-gave:
			return nil, err
		case <-m.loop.done:
		}
	}
	return c.closed()
}

// closed returns what the loop answered before it ended, if it did.
func (c *call) closed() (*Lease, error) {
	select {
	case r := <-c.result:
		return r.lease, r.err
	default:
		return nil, c.error(ErrClosed, "", nil)
	}
}
