package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// idleCheck demands that a free key is granted.
type idleCheck struct{ w *World }

// checkIdle demands that a free key is granted to the waiting requests. If no fault is active and
// no request for a key has changed its state for a period, then a waiting request must be blocked:
// by a lease, or by the time for which a lease keeps the key after its end. A semaphore blocks no
// request as long as fewer leases than its permits are held.
//
// The period (idleAtMost) is as long as a vote may be missing without a fault: voters that gave
// slots in different orders are asked again at the next refresh; a lease ends at its voters a
// little later than its holder believes; and messages take some round trips.
func (ic *idleCheck) checkIdle(k *lockKey) {
	if len(k.waits) == 0 || ic.w.opt.TokensOnly || ic.w.judge.twins || ic.w.now < k.changed.add(ic.idleAtMost()) {
		return
	}
	well := ic.w.order.wellSince()
	if well == never || ic.w.now < well.add(calmTTLs*ic.w.opt.MaxTTL+servedFixed) {
		return
	}
	for _, r := range k.waits {
		if ic.isBarred(k, r) {
			return // the requests behind r may be blocked as well
		}
	}
	ic.w.judge.violate(checkIdle, "%q has room for each of %d that wait since %v:%s", k.name, len(k.waits), time.Duration(k.changed), ic.w.whoWaits())
}

// idleAtMost is how long a key may have room while a request waits.
func (ic *idleCheck) idleAtMost() time.Duration {
	return 2*ic.w.opt.MaxTTL/vote.RefreshesPerTTL + vote.Margin(ic.w.opt.MaxTTL) + 8*ic.w.order.slowestTrip() + ic.w.opt.MaxTTL/20 + ic.w.net.lingersAtMost()
}

// isBarred reports whether a request is blocked by current leases of a key, or by what past leases
// keep.
func (ic *idleCheck) isBarred(k *lockKey, r *Request) bool {
	n := 0
	for _, list := range [][]*Request{k.holds, k.past} {
		for _, o := range list {
			if over := o.keptUntil().add(ic.idleAtMost()); o.State != Granted && over <= ic.w.now || o == r.base {
				continue
			}
			if r.Mode != vote.Permit || o.Mode != vote.Permit || r.Ask.Permits != o.Ask.Permits {
				if r.barsIn(0, o, 0) {
					return true
				}
				continue
			}
			n++
		}
	}
	return r.Mode == vote.Permit && n >= int(r.Ask.Permits)
}
