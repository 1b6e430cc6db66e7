package engine

import (
	"cmp"
	"slices"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// handleEvent processes one event of the node.
func (l *loop) handleEvent(now vote.Now, e *quorum.Event) {
	switch e.Kind {
	case quorum.EventGranted:
		c := l.calls.take(e.Number)
		if c == nil { // the call was abandoned in the same round
			l.node.Release(now, e.Number)
			return
		}
		if text := l.endingText(c); text != "" && c.upgradeOf == nil {
			// The loop hasn't come to this call yet: calls are failed in pieces.
			l.node.Release(now, e.Number)
			c.answer(result{err: c.error(errs.Closed, text, nil)})
			return
		}
		if c.upgradeOf != nil {
			l.completeUpgrade(now, c, e.Token, l.validityOf(e.Group))
			return
		}
		lease, handle := l.api.NewLease()
		lease.begin(l, c, e, l.validityOf(e.Group), now)
		l.held.put(e.Number, lease)
		if c.TTLByNode > 0 {
			l.scheduleEnd(now, lease)
		}
		c.answer(result{lease: lease, handle: handle})
	case quorum.EventFailed:
		if c := l.calls.take(e.Number); c != nil {
			if c.upgradeOf != nil {
				c.upgradeOf.endUpgrade()
			}
			c.fail(l.explain(now, e.Wait))
		}
	case quorum.EventLost:
		if lease := l.held.take(e.Number); lease != nil {
			lease.move(nil)
			lease.end(&causeLost)
			l.noteEnd(lease, lease.lapsed())
			l.stopPending(now, lease)
			lease.finish(lease.UnlockError(errs.Lost))
			if !lease.isFixed() { // else the lease was to end by itself
				l.lost = append(l.lost, lease)
			}
		} else if lease := l.kept.take(e.Number); lease != nil {
			lease.pending.stop()
			lease.move(nil)
			if l.released.take(e.Number) != nil {
				lease.finish(lease.unconfirmed(quorum.Wait{
					Reason: quorum.WaitNoQuorum, Text: "the voters have not confirmed the end of the lease",
				}))
			}
		} else if lease := l.released.take(e.Number); lease != nil {
			lease.finish(lease.UnlockError(errs.Lost))
		}
	case quorum.EventReleased:
		if lease := l.released.take(e.Number); lease != nil {
			if l.leaving && e.Wait.Reason != quorum.WaitNone {
				l.unconfirmed++
				l.lastUnconfirmed = e.Wait.Text
			}
			lease.finish(lease.unconfirmed(e.Wait))
		}
	case quorum.EventMoved:
		if lease := cmp.Or(l.held.m[e.Number], l.kept.m[e.Number]); lease != nil {
			lease.move(l.validityOf(e.Group))
		}
	case quorum.EventValidity:
		l.validityOf(e.Group).until.Store(int64(e.Until))
	case quorum.EventContended:
		if lease := l.held.m[e.Number]; lease != nil && e.Revoke {
			lease.Revocations().Add(string(e.Who), e.Text)
		}
	case quorum.EventEvicted:
		if lease := l.held.m[e.Number]; lease != nil {
			l.evicted(now, lease, string(e.Who), e.Text)
		}
	case quorum.EventExtended:
		if lease := l.held.m[e.Number]; lease != nil {
			lease.confirmExtensions(e.Until)
		}
	case quorum.EventValueSet:
		if lease := l.held.m[e.Number]; lease != nil {
			lease.confirmValue(e.Version)
		} else if l.kept.m[e.Number] != nil && e.Version >= vote.VersionEnded {
			if lease := l.released.take(e.Number); lease != nil {
				lease.finish(nil)
			}
		}
	case quorum.EventNews:
		l.receiveNews(now, e)
	case quorum.EventQueryDone, quorum.EventRevokeForwarded:
		if e.Result != nil {
			l.node.Spend(len(e.Result.Views)) // assembling the answer took as long
		}
		l.receiveResult(now, e)
		if answer := l.queries[e.Nonce]; answer != nil {
			delete(l.queries, e.Nonce)
			event := *e
			event.Wait = l.explain(now, event.Wait)
			answer <- &event
		}
	case quorum.EventAlarm:
		l.log.Error("alarm: " + e.Text)
	case quorum.EventNotice:
		l.log.Warn("this voter waits for leases of a refused node: " + e.Text)
	case quorum.EventDrift:
		l.log.Error("drift: " + e.Text)
	case quorum.EventRenewed:
		l.renewed(now, e)
	case quorum.EventElectorate:
		l.electorateChanged(now, e)
	}
}

// validityOf returns the validity of a group. A new validity lasts for no time until the node
// reports the validity of the group.
func (l *loop) validityOf(id quorum.GroupID) *groupValidity {
	c := l.validities[id]
	if c == nil {
		c = &groupValidity{}
		l.validities[id] = c
		l.unreferenced = true
	}
	return c
}

// evicted ends a lease at the request of another node.
func (l *loop) evicted(now vote.Now, lease *Lease, by, reason string) {
	text := "by " + by
	if reason != "" {
		text += ": " + reason
	}
	cause := l.fail(errs.Failure{Op: "lease", Key: string(lease.key), Reason: errs.Evicted, Text: text, Err: errs.Lost})
	l.log.Warn("a lease was evicted", "key", string(lease.key), "token", lease.token.Load(), "by", by, "reason", reason)
	l.endHeld(now, lease, &cause, EndEvicted)
}

// logLost logs all leases lost in this round together.
func (l *loop) logLost(now vote.Now) {
	if len(l.lost) == 0 {
		return
	}
	if reason := l.refused(now); reason != "" {
		// An operator must look at the resources protected by these locks.
		l.log.Error("leases lost: this node withdrew, and other nodes may have held the same "+
			"locks meanwhile",
			"leases", len(l.lost), "keys", someKeys(l.lost), "reason", reason)
	} else {
		first := l.lost[0]
		l.log.Warn("leases lost: they could not be renewed in time",
			"leases", len(l.lost), "key", first.key, "token", first.token.Load(),
			"voters", describeVoters(l.node.Voters(now)))
	}
	clear(l.lost)
	l.lost = l.lost[:0]
	if cap(l.lost) > roomyMap {
		l.lost = nil
	}
}

// maxKeysLogged is the largest number of keys named in a line of the log.
const maxKeysLogged = 50

// someKeys returns the keys of the leases in order, up to maxKeysLogged of them.
func someKeys(leases []*Lease) []string {
	keys := make([]string, 0, len(leases))
	for _, lease := range leases {
		keys = append(keys, string(lease.key))
	}
	slices.Sort(keys)
	return keys[:min(len(keys), maxKeysLogged)]
}
