package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// submit passes a call to the node.
func (l *loop) submit(now vote.Now, c *call) {
	if text := l.endingText(c); text != "" {
		c.answer(result{err: c.error(errs.Closed, text, nil)})
		return
	}
	if text := l.refused(now); text != "" {
		c.fail(quorum.Wait{Reason: quorum.WaitRefused, Text: text})
		return
	}
	c.since = now.Wall
	ask := c.RequestOptions
	if lease := c.upgradeOf; lease != nil {
		if l.held.m[lease.number] != lease || lease.isKeyReleased() {
			c.answer(result{err: lease.upgradeError(c, cmp.Or(lease.Cause(), error(errs.Lost)))})
			return
		}
		if vote.Mode(lease.mode.Load()) == vote.Exclusive {
			// Another call was first, after this call had seen a shared lease.
			c.answer(result{})
			return
		}
		b := lease.ensurePending()
		if b.upgrading != nil {
			c.answer(result{err: c.error(errs.Clash, "another call of Upgrade is under way", nil)})
			return
		}
		c.Value = b.value
		ask.Beside, ask.Value = lease.number, c.Value
		if lease.isFixed() {
			// The upgrade gets the remaining time, so that its voters don't keep the key long after
			// the lease's end, and no less: the holder may have told others of the deadline.
			left := lease.validUntil()
			lease.options.keptAtMost.Store(int64(left))
			lasting := vote.LengthFor(max(left.Sub(now.Fast), 0))
			c.Length = max(min(lasting, lease.options.grantedLength), l.engine.cfg.Limits.MinTTL)
			ask.Length = c.Length
		}
		if a := lease.options; a != nil {
			c.endsAt = a.endsAt()
			ask.MinHold = max(ask.MinHold-now.Slow.Sub(a.granted), 0) // counted from the lease's grant
			ask.Fixed = ask.Fixed && !a.byNode.Load()
		}
		if ask.EndsAfter != 0 {
			// Other nodes see how long the lease lasts after the grant of the upgrade.
			ask.EndsAfter = lease.options.endsAt().Sub(now.Fast)
		}
		b.upgrading = c
	}
	n, err := l.node.Lock(now, ask)
	if err != nil && c.upgradeOf != nil {
		c.upgradeOf.endUpgrade()
	}
	switch {
	case err == nil:
		c.number = n
		l.calls.put(n, c)
	case errors.Is(err, quorum.ErrBusy):
		c.answer(result{err: c.error(errs.Busy, fmt.Sprintf("this node holds or waits for %d keys", quorum.MaxRequests), nil)})
	default:
		c.answer(result{err: c.error(err, "", nil)})
	}
}

// abandon cancels a call with an ended context, and returns an error with the reason for the call's
// waiting. If the call was granted a lease meanwhile, the lease is released. The caller passes
// ended, the reason for the context's end: the loop must not ask the context, since that runs the
// application's code, which may wait for the loop.
func (l *loop) abandon(now vote.Now, c *call, ended error) error {
	if l.calls.m[c.number] == c && l.node.PendingReason(now, c.number).Reason == quorum.WaitNone {
		l.drainNode(now) // the outcome is among the events that the node has yet to report
	}
	if l.calls.take(c.number) == c {
		wait := l.explain(now, l.node.PendingReason(now, c.number))
		l.node.Release(now, c.number)
		if c.upgradeOf != nil {
			c.upgradeOf.endUpgrade()
		}
		return c.refuse(reasonOf(wait.Reason), wait.Text, ended)
	}
	// The call was answered before, and no other goroutine reads the answer.
	r := <-c.result
	lease := r.lease
	if lease == nil {
		return r.err // an upgrade granted in time stays
	}
	if a := lease.options; a != nil {
		// The caller never had the lease, so the job for which the key would be kept hasn't run. No
		// other goroutine knows the lease.
		a.requested.MinHoldByNode = 0
	}
	lease.end(&causeReleased)
	l.release(now, lease, EndAbandoned)
	return c.error(nil, "it was granted as the context ended, and has been given back", ended)
}

// failCalls cancels and answers the pending calls, in pieces: all of them, or all but upgrades.
func (l *loop) failCalls(upgrades bool, answer func(*call)) {
	// The newest are cancelled first: of the callers in a local queue the last is removed with the
	// least work.
	list := func() []vote.Number {
		numbers := l.calls.numbers()
		slices.SortFunc(numbers, func(a, b vote.Number) int { return cmp.Compare(b, a) })
		return numbers
	}
	l.addTask(task{list: list, do: func(now vote.Now, n vote.Number) {
		c := l.calls.m[n]
		if c == nil || c.upgradeOf != nil && !upgrades {
			return
		}
		l.calls.take(n)
		l.node.Release(now, n)
		if c.upgradeOf != nil {
			c.upgradeOf.endUpgrade()
		}
		answer(c)
		l.node.Spend(costFailed)
	}})
}

// setDuplicateName sets the reason why every call is refused; with "" no call is refused any more.
func (l *loop) setDuplicateName(now vote.Now, text string) {
	l.duplicateName = text
	l.failRefused(now)
}

// refused returns the reason why every call is refused, whatever the voters answer; empty if calls
// aren't refused.
func (l *loop) refused(now vote.Now) string { return cmp.Or(l.duplicateName, l.node.Refusal(now)) }

// failRefused answers all pending calls if this node refuses calls now.
func (l *loop) failRefused(now vote.Now) {
	text := l.refused(now)
	if text != "" && len(l.calls.m) > 0 && len(l.tasks) == 0 {
		l.failCalls(true, func(c *call) { c.fail(quorum.Wait{Reason: quorum.WaitRefused, Text: text}) })
	}
}
