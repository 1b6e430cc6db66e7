package sim

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// refusalCheck demands a valid reason for each refusal.
type refusalCheck struct{ w *World }

// checkRefusal demands a visible cause for a refusal: another upgrade, or a request for another
// number of permits.
func (rc *refusalCheck) checkRefusal(r *Request) {
	other := func(is func(o *Request) bool) bool {
		for _, p := range rc.w.judge.bySession { // dead processes too: voters learn late of a crash
			if slices.ContainsFunc(p.asked[1:], func(o *Request) bool { return o.key == r.key && o != r && is(o) }) {
				return true
			}
		}
		return false
	}
	switch r.Wait.Reason {
	case quorum.WaitClash:
		rc.w.marks.mark(markClash)
		if r.base == nil || !other(func(o *Request) bool { return o.base != nil }) {
			rc.w.judge.violate(checkRefusal, "%s's request %d of %q fails as another upgrade is older, and there is none", r.Node, r.Number, r.Key)
		}
	case quorum.WaitUnfit:
		rc.w.marks.mark(markUnfit)
		if !other(func(o *Request) bool { return o.Mode == vote.Permit && o.Ask.Permits != r.Ask.Permits }) {
			rc.w.judge.violate(checkRefusal, "%s's request %d of %q fails as others use another number of permits, and there are none", r.Node, r.Number, r.Key)
		}
	}
}

// checkGivenUp judges what a caller is told that gives up waiting: that the key is held, or an
// earlier request queued, only if there was another request; and that too few voters answer only if
// something is or was wrong.
func (rc *refusalCheck) checkGivenUp(r *Request, told quorum.Wait) {
	o := &rc.w.opt
	if o.TokensOnly || rc.w.judge.hasDuplicates {
		return
	}
	switch told.Reason {
	case quorum.WaitHeld:
		if !rc.hadCompetitor(r) {
			rc.w.judge.violate(checkRefusal, "%s gives up request %d of %q, asked for at %v, and is told that the key is held: no other request has been there",
				r.Node, r.Number, r.Key, r.Asked)
		}
	case quorum.WaitNoQuorum:
		well := rc.w.order.faultFreeSince()
		if o.Dynamic != nil || o.ByCount != nil || o.Lists != nil || well == never ||
			rc.w.now < well.Add(o.calmAfter()+servedFixed) || rc.w.Now() < r.Asked+o.MaxTTL {
			return
		}
		// A request that stood in its node's local queue may have reached the voters just now,
		// after the end of another; with the next refresh the voters say that they know the
		// request.
		if rc.w.now < r.key.changed.Add(o.MaxTTL/4+rc.w.order.slowestTrip()) {
			return
		}
		rc.w.judge.violate(checkRefusal, "%s gives up request %d of %q, asked for at %v, and is told that too few voters answer: nothing has been wrong since %v (%s)",
			r.Node, r.Number, r.Key, r.Asked, time.Duration(well), told.Text)
	}
}

// hadCompetitor reports whether there is another request for a request's key, or was one that a
// voter may still know of: a session, a delay, and the messages in flight.
func (rc *refusalCheck) hadCompetitor(r *Request) bool {
	remembered := rc.w.rememberedFor()
	for _, p := range rc.w.judge.bySession {
		if slices.ContainsFunc(p.asked[1:], func(o *Request) bool {
			return o.key == r.key && o != r &&
				(o.State < Failed || o.State == Releasing || o.Ended+remembered >= rc.w.Now())
		}) {
			return true
		}
	}
	return false
}
