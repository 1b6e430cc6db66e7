package sim

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// exclusionCheck demands that leases that exclude each other don't overlap.
type exclusionCheck struct{ w *World }

// bars reports whether two leases of a key exclude each other.
func (r *Request) bars(o *Request) bool { return r.barsIn(r.Slot, o, o.Slot) }

// barsIn is bars for the given slots, which the leases need not have been granted yet.
func (r *Request) barsIn(slot vote.Slot, o *Request, other vote.Slot) bool {
	if r.upgrades(o) || o.upgrades(r) {
		return false
	}
	switch {
	case r.Mode != o.Mode || r.Mode == vote.Exclusive:
		return true
	case r.Mode == vote.Permit:
		return slot == other || r.Ask.Permits != o.Ask.Permits
	}
	return false
}

// upgrades reports whether r is an upgrade of the shared lease o, and so takes o's place when
// granted.
func (r *Request) upgrades(o *Request) bool { return r.base == o && o.Mode == vote.Shared }

// keptUntil returns until when, in the world's time, a lease keeps others from the key at least:
// until the lease ends, unless it was given back; for its delay after an end without a release; and
// for its minimum hold. Voters' clocks may run fast by the bound, and the holder's clock slow, so
// voters may end a delay or a minimum hold earlier by the drift allowance.
func (r *Request) keptUntil() (until Moment) {
	if !r.given {
		until = r.endAt.add(r.Ask.Delay - vote.Drift(r.Ask.Delay))
		if r.Ask.Delay == 0 {
			until = r.endAt
		}
	}
	if d := r.Ask.MinHold; d > 0 {
		until = max(until, Moment(r.Had).add(d-vote.Drift(d)))
	}
	return until
}

// checkExclusion demands that a new lease is compatible with all leases that are held, and that no
// ended lease still keeps the key from the new lease.
func (ec *exclusionCheck) checkExclusion(r *Request) {
	k := r.key
	if r.Mode == vote.Permit && (r.Slot == 0 || r.Slot > vote.Slot(r.Ask.Permits)) {
		ec.w.judge.violate(checkExclusion, "%s is granted %q in slot %d of %d", r.Node, k.name, r.Slot, r.Ask.Permits)
		return
	}
	for _, o := range k.holds {
		if !ec.w.judge.believes(o) || !r.bars(o) {
			continue
		}
		ec.w.fig.Overlaps++
		if ec.w.opt.TokensOnly {
			continue
		}
		ec.w.judge.violate(checkExclusion, "%s is granted %q (%v, slot %d) with token %d while %s holds it (%v, slot %d) with token %d, for %v more", r.Node,
			k.name, r.Mode, r.Slot, r.Token, o.Node, o.Mode, o.Slot, o.Token, o.p.left(ec.w.now, o.end))
		if ec.w.failed != nil {
			return
		}
	}
	k.past = slices.DeleteFunc(k.past, func(o *Request) bool { return o.keptUntil() <= ec.w.now })
	if ec.w.opt.TokensOnly {
		return
	}
	for _, o := range slices.Concat(k.holds, k.past) {
		if r.bars(o) && !ec.w.judge.believes(o) && o.keptUntil() > ec.w.now {
			ec.w.judge.violate(checkRest, "%s is granted %q with token %d, which %s's lease with token %d, granted at %v, keeps from it for %v more", r.Node,
				k.name, r.Token, o.Node, o.Token, o.Had, time.Duration(o.keptUntil()-ec.w.now))
			return
		}
	}
}
