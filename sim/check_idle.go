package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/check"
)

// idleCheck feeds [check.Idle].
type idleCheck struct {
	w             *World
	waits, leases []*check.Lease // what the last call examined
}

// checkIdle demands that a free key is granted to the waiting requests, if no fault is active and
// no request for the key has changed its state for a period.
func (ic *idleCheck) checkIdle(k *lockKey) {
	idle := check.Idle{AtMost: ic.idleAtMost()}
	if len(k.waits) == 0 || ic.w.opt.TokensOnly || ic.w.judge.hasDuplicates || ic.w.now < k.changed.Add(idle.AtMost) {
		return
	}
	well := ic.w.order.faultFreeSince()
	if well == never || ic.w.now < well.Add(ic.w.opt.calmAfter()+servedFixed) {
		return
	}
	ic.w.marks.mark(markIdle)
	ic.waits, ic.leases = ic.waits[:0], ic.leases[:0]
	for _, r := range k.waits {
		ic.waits = append(ic.waits, &r.Lease)
	}
	for _, list := range [][]*Request{k.holds, k.past} {
		for _, r := range list {
			ic.leases = append(ic.leases, &r.Lease)
		}
	}
	if idle.HasRoom(ic.w.now, ic.waits, ic.leases) {
		ic.w.judge.violate(check.RuleIdle, "%q has room for each of %d that wait since %v:%s", k.name, len(k.waits), time.Duration(k.changed), ic.w.whoWaits())
	}
}

// idleAtMost is how long a key may have room while a request waits; see [check.Idle].
func (ic *idleCheck) idleAtMost() time.Duration {
	return 2*ic.w.opt.MaxTTL/vote.RefreshesPerTTL + vote.Margin(ic.w.opt.MaxTTL) + 8*ic.w.order.slowestTrip() + ic.w.opt.MaxTTL/20 + ic.w.net.coalescingAtMost()
}
