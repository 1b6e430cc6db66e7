package engine

import (
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// release releases a lease that has ended on this node for a reason.
func (l *loop) release(now vote.Now, lease *Lease, reason EndReason) {
	if l.held.take(lease.number) == nil {
		return // lost before; finish was called
	}
	l.noteEnd(lease, reason)
	l.stopPending(now, lease)
	if left := lease.keptFor(now); left > 0 {
		l.keepKey(now, lease, left, false)
		// Unlock returns once a majority knows of the end, as it does of any release.
		l.released.put(lease.number, lease)
		return
	}
	lease.move(nil)
	l.released.put(lease.number, lease)
	l.node.Release(now, lease.number)
}

// keepKey keeps the key of an ended lease from others for longer than voters can promise; the
// request lasts until then. The lease stays counted in its validity: another lease may join the
// same group, and the node reports the group's validity again only when it changes. The voters are
// told that the lease is over; lost says that it wasn't unlocked.
func (l *loop) keepKey(now vote.Now, lease *Lease, left time.Duration, lost bool) {
	l.kept.put(lease.number, lease)
	l.node.EndKeepingKey(now, lease.number, left, lost)
	lease.ensurePending().stop = l.clocks.After(left, func() { l.box.post(false, func(now vote.Now) { l.releaseKept(now, lease) }) })
}

// releaseKept releases a key that was kept from others for the requested time.
func (l *loop) releaseKept(now vote.Now, lease *Lease) {
	if l.kept.take(lease.number) != nil {
		lease.move(nil)
		l.node.Release(now, lease.number)
	}
}

// scheduleEnd has the node end a lease when its set length is over.
func (l *loop) scheduleEnd(now vote.Now, lease *Lease) {
	b := lease.ensurePending()
	if b.stop != nil {
		b.stop() // the end has moved
	}
	b.stop = l.clocks.After(lease.options.endsAt().Sub(now.Fast), func() {
		l.box.post(false, func(now vote.Now) {
			if now.Fast < lease.options.endsAt() && l.held.m[lease.number] == lease {
				// The end has moved as the timer fired, or the timer's clock is fast.
				l.scheduleEnd(now, lease)
				return
			}
			l.endAtLength(now, lease)
		})
	})
}

// endAtLength ends a lease at the end of its set length; the node has kept the lease up until then.
func (l *loop) endAtLength(now vote.Now, lease *Lease) {
	l.endHeld(now, lease, &causeLost, EndExpired)
}

// endHeld ends a held lease that its user hasn't released. The voters apply the options for such
// an end.
func (l *loop) endHeld(now vote.Now, lease *Lease, cause *error, reason EndReason) {
	if l.held.m[lease.number] != lease {
		return
	}
	l.held.take(lease.number)
	lease.end(cause)
	l.noteEnd(lease, reason)
	l.stopPending(now, lease)
	lease.finish(lease.UnlockError(*cause))
	// Otherwise the voters' lock-delay lasts longer.
	if left := lease.keptFor(now); left > lease.request().Delay {
		l.keepKey(now, lease, left, true)
		return
	}
	lease.move(nil)
	l.node.Lapse(now, lease.number)
}

// stopPending stops the pending operations on an ended lease.
func (l *loop) stopPending(now vote.Now, lease *Lease) {
	if b := lease.pending; b != nil && b.stop != nil {
		b.stop()
		b.stop = nil
	}
	l.failPending(now, lease, lease.Cause())
}

// drop releases a lease that Err has found expired.
func (l *loop) drop(now vote.Now, lease *Lease) {
	if lease.options != nil && now.Fast >= lease.options.endsAt() {
		l.endAtLength(now, lease)
		return
	}
	if l.held.take(lease.number) == nil {
		return
	}
	l.noteEnd(lease, lease.lapsed())
	lease.move(nil)
	l.stopPending(now, lease)
	lease.finish(lease.UnlockError(errs.Lost))
	if !lease.isFixed() {
		l.lost = append(l.lost, lease)
	}
	l.node.Lapse(now, lease.number)
}

const (
	leavingText  = "this node is leaving"
	drainingText = "this node is draining: it takes no more locks"
)

// drain refuses new calls from now on, and answers the waiting calls; upgrades of held leases go
// on. done, which must have room, is notified when no lease is held or being released.
func (l *loop) drain(done chan<- struct{}) {
	l.draining = true
	l.failCalls(false, func(c *call) { c.answer(result{err: c.error(errs.Closed, drainingText, nil)}) })
	l.drainWaiters = append(l.drainWaiters, done)
}

// releaseAll releases every lease, but those that are to be kept, and answers every call. gone,
// which must have room, is notified when all releases are confirmed or given up. freed is closed
// when all of them have been ended here, and the voters are being told.
func (l *loop) releaseAll(op string, freed chan<- struct{}, gone chan<- error) {
	l.leaveOp = op
	l.leaving = true
	// The calls are answered first, since a released lease would be handed to the next call in the
	// local queue.
	l.failCalls(true, func(c *call) { c.answer(result{err: c.error(errs.Closed, leavingText, nil)}) })
	for w := range l.awaiting {
		w.result <- l.fail(errs.Failure{Op: w.op, Reason: errs.Closed, Text: leavingText})
	}
	clear(l.awaiting)
	l.addTask(task{list: l.held.numbers, do: func(now vote.Now, n vote.Number) {
		lease := l.held.m[n]
		if lease == nil || lease.kept {
			return
		}
		reason := EndReleased
		if !lease.end(&causeReleased) {
			reason = EndUnlocked // the first end counts, if another came just before
		}
		l.release(now, lease, reason)
		l.node.Spend(costFreed)
	}, done: freed})
	l.releaseWaiters = append(l.releaseWaiters, gone)
}

// endingText returns why a call gets no lease: the node leaves or drains. It is empty if the call
// may get a lease. A draining node still grants upgrades of held leases.
func (l *loop) endingText(c *call) string {
	switch {
	case l.leaving:
		return leavingText
	case l.draining && c.upgradeOf == nil:
		return drainingText
	}
	return ""
}

// answerEnding answers Drain once no lease is held or being released, and Leave and Stop once no
// lease is being released.
func (l *loop) answerEnding() {
	if len(l.tasks) > 0 {
		return
	}
	if len(l.held.m)+len(l.released.m) == 0 {
		for _, c := range l.drainWaiters {
			c <- struct{}{}
		}
		l.drainWaiters = nil
	}
	if len(l.released.m) == 0 {
		for _, c := range l.releaseWaiters {
			c <- l.leaveError()
		}
		l.releaseWaiters = nil
	}
}

func (l *loop) leaveError() error {
	if l.unconfirmed == 0 {
		return nil
	}
	if l.unconfirmed == 1 {
		return l.fail(errs.Failure{Op: l.leaveOp, Reason: errs.NoQuorum, Text: "one release is unconfirmed: " + l.lastUnconfirmed})
	}
	return l.fail(errs.Failure{Op: l.leaveOp, Reason: errs.NoQuorum, Text: fmt.Sprintf("%d releases are unconfirmed; of the last, %s", l.unconfirmed, l.lastUnconfirmed)})
}
