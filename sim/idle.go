package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// checkIdle demands that what is free is given to those who wait. Where nothing is wrong and nothing has become of any request for a key
// for a while, then somebody bars each that waits: a lease, or what a lease keeps from others after its end. A semaphore bars nobody as long as fewer
// leases than its permits are held.
//
// The while is as long as a vote may be missing without anybody's fault: voters that gave slots in different orders are asked again at the next
// refresh; a lease ends at its voters a little later than its holder believes; and what is said takes some trips.
func (w *World) checkIdle(k *lockKey) {
	if len(k.waits) == 0 || w.opt.TokensOnly || w.twins || w.now < k.changed.add(w.idleAtMost()) {
		return
	}
	well := w.wellSince()
	if well == never || w.now < well.add(calmTTLs*w.opt.MaxTTL+servedFixed) {
		return
	}
	for _, r := range k.waits {
		if w.isBarred(k, r) {
			return // and so may be who stands behind it
		}
	}
	w.violate(checkIdle, "%q has room for each of %d that wait since %v:%s", k.name, len(k.waits), time.Duration(k.changed), w.whoWaits())
}

// idleAtMost is for how long a key may have room while somebody waits.
func (w *World) idleAtMost() time.Duration {
	return 2*w.opt.MaxTTL/vote.RefreshesPerTTL + vote.Guard(w.opt.MaxTTL) + 8*w.slowestTrip() + w.opt.MaxTTL/20 + w.lingersAtMost()
}

// isBarred reports whether what is held of a key, or kept by what was, keeps a request from it.
func (w *World) isBarred(k *lockKey, r *Request) bool {
	n := 0
	for _, list := range [][]*Request{k.holds, k.past} {
		for _, o := range list {
			if over := o.keptUntil().add(w.idleAtMost()); o.State != Granted && over <= w.now || o == r.base {
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
