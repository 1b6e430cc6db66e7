package engine

import (
	"context"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/quorum"
)

// unlockWait is a call of Unlock waiting for the last report about the lease.
type unlockWait struct {
	done    chan struct{} // capacity 1
	outcome error         // the result of Unlock; written before the send to done
}

// unlockDone is the waiter of every lease that has ended without an error, once no report about the
// lease is to come.
var unlockDone unlockWait

// finish passes the outcome of the lease at the voters to Unlock. The loop calls finish once.
func (l *Lease) finish(outcome error) {
	over := &unlockDone
	if outcome != nil {
		over = &unlockWait{outcome: outcome}
	}
	if w := l.waiter.Swap(over); w != nil {
		w.outcome = outcome
		w.done <- struct{}{}
	}
}

// AwaitRelease waits until a majority has confirmed the release, or nothing is left to wait for. It
// is called once per lease.
func (l *Lease) AwaitRelease(ctx context.Context) error {
	if w := l.waiter.Load(); w != nil {
		return w.outcome
	}
	spare := &l.loop.engine.pools.unlockWaits
	w, _ := spare.Get().(*unlockWait)
	if w == nil {
		w = &unlockWait{done: make(chan struct{}, 1)}
	}
	told := func() error {
		outcome := w.outcome
		w.outcome = nil
		spare.Put(w)
		return outcome
	}
	if !l.waiter.CompareAndSwap(nil, w) {
		spare.Put(w)
		return l.waiter.Load().outcome
	}
	// The loop answers for every lease, at the latest when the loop ends.
	done := ctx.Done()
	if done == nil {
		<-w.done
		return told()
	}
	select {
	case <-w.done:
		return told()
	default: // a confirmed release counts, even after the end of ctx
	}
	const unconfirmed = "the lease is given up, but no majority has confirmed the release yet"
	select {
	case <-done: // the voters had no time to answer, so they aren't to blame
		return l.fail(errs.Failure{Op: "unlock", Key: string(l.key), Text: unconfirmed, Err: errs.OfContext(ctx)})
	default:
	}
	select {
	case <-w.done:
		return told()
	case <-done:
		return l.loop.engine.unanswered("unlock", l.key, unconfirmed, errs.OfContext(ctx))
	}
}

// UnlockError returns the error of a call of Unlock that finds the lease ended for a reason.
func (l *Lease) UnlockError(reason error) error { return l.EndError("unlock", reason, "") }

// EndError returns the error of a call that finds the lease ended; see [API].
func (l *Lease) EndError(op string, cause error, text string) error {
	return l.loop.api.EndError(op, string(l.key), cause, text)
}

// notReleased returns the outcome of a release cut off by the end of the node.
func (l *Lease) notReleased() error {
	return l.fail(errs.Failure{Op: "unlock", Key: string(l.key), Reason: errs.Closed, Text: "no majority had confirmed the release by then"})
}

// unconfirmed returns the outcome of a release: an error if too few voters have confirmed it.
func (l *Lease) unconfirmed(w quorum.Wait) error {
	if w.Reason == quorum.WaitNone {
		return nil
	}
	return l.fail(errs.Failure{Op: "unlock", Key: string(l.key), Reason: reasonOf(w.Reason), Text: w.Text})
}
