package check

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Length demands that a lease ends by itself within most, its own length or its session's TTL, and
// that a lease that must not be extended ends at fixed (zero for no such end). End is when its
// holder believes that the lease ends; all readings are of the holder's fast clock.
func Length(report Report, r *Lease, now, end, fixed vote.Instant, most time.Duration) {
	switch {
	case end > now.Add(most):
		report(RuleLength, "%s's lease of %q is to last for %v, and at most %v is right", r.Node, r.Key, end.Sub(now), most)
	case fixed != 0 && end > fixed:
		report(RuleLength, "%s's lease of %q isn't to be extended, and lasts %v too long", r.Node, r.Key, end.Sub(fixed))
	}
}
