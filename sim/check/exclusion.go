package check

import (
	"iter"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Exclusion demands that leases that exclude each other don't overlap.
type Exclusion struct {
	// TokensOnly is for runs beyond the assumptions of exclusion: overlaps are counted alone.
	TokensOnly bool
	Report     Report
}

// Granted checks a new lease against the other leases of its key. held has the leases that their
// holders still use, and for how long; over has the ended leases, which may keep the key for a
// delay or minimum hold. The new lease must be compatible with all of them. Granted returns the
// number of leases that overlap the new lease.
func (x *Exclusion) Granted(now Moment, r *Lease, held iter.Seq2[*Lease, time.Duration], over iter.Seq[*Lease]) (overlaps uint64) {
	if r.Mode == vote.Permit && (r.Slot == 0 || r.Slot > vote.Slot(r.Permits)) {
		x.Report(RuleExclusion, "%s is granted %q in slot %d of %d", r.Node, r.Key, r.Slot, r.Permits)
		return 0
	}
	for o, left := range held {
		if !r.Bars(o) {
			continue
		}
		overlaps++
		if !x.TokensOnly {
			x.Report(RuleExclusion, "%s is granted %q (%v, slot %d) with token %d while %s holds it (%v, slot %d) with token %d, for %v more", r.Node,
				r.Key, r.Mode, r.Slot, r.Token, o.Node, o.Mode, o.Slot, o.Token, left)
		}
	}
	if x.TokensOnly {
		return overlaps
	}
	for o := range over {
		if until := o.KeptUntil(); r.Bars(o) && until > now {
			x.Report(RuleRest, "%s is granted %q with token %d, which %s's lease with token %d, granted at %v, keeps from it for %v more", r.Node,
				r.Key, r.Token, o.Node, o.Token, o.Had, time.Duration(until-now))
		}
	}
	return overlaps
}
