package sim

import (
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/check"
)

// checkLength feeds [check.Length].
func (j *judge) checkLength(r *Request) {
	most, fixed := r.p.host.ttl, vote.Instant(0)
	if r.Ask.Length > 0 {
		most = r.Ask.Length
		if r.Ask.Fixed {
			fixed = r.fixed
		}
	}
	check.Length(j.violate, &r.Lease, r.p.clock.fastAt(j.w.now), r.end, fixed, most)
}
