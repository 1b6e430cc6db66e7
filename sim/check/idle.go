package check

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Idle demands that a free key is granted to the waiting requests. If no fault is active and no
// request for a key has changed its state for a period, then a waiting request must be blocked: by
// a lease, or by the time for which a lease keeps the key after its end. A semaphore blocks no
// request as long as fewer leases than its permits are held.
type Idle struct {
	// AtMost is the period: as long as a vote may be missing without a fault. Voters that gave
	// slots in different orders are asked again at the next refresh; a lease ends at its voters a
	// little later than its holder believes; and messages take some round trips.
	AtMost time.Duration
}

// HasRoom reports whether a key has room for each of the waiting requests. Leases are those that
// are held, and those that are over and may keep the key.
func (c *Idle) HasRoom(now Moment, waits, leases []*Lease) bool {
	for _, r := range waits {
		if c.isBarred(now, r, leases) {
			return false // the requests behind r may be blocked as well
		}
	}
	return len(waits) > 0
}

// isBarred reports whether a request is blocked by current leases of a key, or by what past leases
// keep.
func (c *Idle) isBarred(now Moment, r *Lease, leases []*Lease) bool {
	n := 0
	for _, o := range leases {
		if over := o.KeptUntil().Add(c.AtMost); o.State != Granted && over <= now || o == r.Base {
			continue
		}
		if r.Mode != vote.Permit || o.Mode != vote.Permit || r.Permits != o.Permits {
			if r.BarsIn(0, o, 0) {
				return true
			}
			continue
		}
		n++
	}
	return r.Mode == vote.Permit && n >= int(r.Permits)
}
