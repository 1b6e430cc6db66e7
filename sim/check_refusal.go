package sim

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// refusalCheck demands a valid reason for each refusal.
type refusalCheck struct{ w *World }

// checkRefusal demands a visible cause for a refusal: another upgrade, or a request for another
// number of permits.
func (rc *refusalCheck) checkRefusal(r *Request) {
	other := func(is func(o *Request) bool) bool {
		for _, p := range rc.w.bySession { // dead processes too: voters learn late of a crash
			if slices.ContainsFunc(p.asked[1:], func(o *Request) bool { return o.key == r.key && o != r && is(o) }) {
				return true
			}
		}
		return false
	}
	switch r.Wait.Reason {
	case quorum.WaitClash:
		rc.w.mark(MarkClash)
		if r.base == nil || !other(func(o *Request) bool { return o.base != nil }) {
			rc.w.violate(checkRefusal, "%s's request %d of %q fails as another upgrade is older, and there is none", r.Node, r.Number, r.Key)
		}
	case quorum.WaitUnfit:
		rc.w.mark(MarkUnfit)
		if !other(func(o *Request) bool { return o.Mode == vote.Permit && o.Ask.Permits != r.Ask.Permits }) {
			rc.w.violate(checkRefusal, "%s's request %d of %q fails as others use another number of permits, and there are none", r.Node, r.Number, r.Key)
		}
	}
}
