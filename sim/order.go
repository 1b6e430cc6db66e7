package sim

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/check"
)

// Order of service: requests are served in the order in which they were made. Stamps lie within S
// (vote.Skew) of the median of the voters' clocks. If two requests reach all voters, the later
// request is served first only if the two were made within 2 S plus the nodes' error in this
// median: the time for messages to travel, and the drift of clocks between two refreshes. While
// something is wrong, other rules take precedence (for example, a request is passed over if only a
// minority knows of it). So the order is demanded only of requests made after the mesh has been
// well for a while.

// calmTTLs is the time without any fault after which the order of service is checked, in maximum
// TTLs. By then the startup quarantines are over, and the sessions of crashed processes have ended.
const calmTTLs = 3

// calmAfter is that time. Where gossip is late, a process may learn of another, and be linked to
// it, as much later.
func (o *Options) calmAfter() time.Duration {
	after := calmTTLs * o.MaxTTL
	if o.Dynamic != nil {
		after += o.Dynamic.NewsMost
	}
	return after
}

// serviceOrder checks the order of service.
type serviceOrder struct {
	w            *World
	disturbances []Moment // all values of disturbed, in worlds with watches
	disturbed    Moment   // when a fault last began or ended
}

// disturb records that a fault begins or ends now.
func (so *serviceOrder) disturb() {
	so.disturbed = so.w.now
	if so.w.opt.Watches {
		so.disturbances = append(so.disturbances, so.w.now)
	}
}

// isFaultFree reports whether nothing went wrong from a while before the first moment until the
// second.
func (so *serviceOrder) isFaultFree(from, to Moment) bool {
	return !slices.ContainsFunc(so.disturbances, func(at Moment) bool { return at.Add(so.w.opt.calmAfter()) >= from && at <= to })
}

// faultFreeSince returns since when nothing has gone wrong; never if something is wrong now.
func (so *serviceOrder) faultFreeSince() Moment {
	if so.w.listsDiffer() || so.w.conversion.isOutOfOrder() {
		return never
	}
	for i, h := range so.w.hosts {
		if so.w.opt.ByCount != nil && h.p != nil && h.p.met == nil && !so.w.population.settledIn(h.p) {
			return never
		}
		if h.p == nil && !h.retired && so.w.opt.ByCount == nil || h.hung != pauseNone || h.disk.broken || so.w.dynamic.reportFailed[h] > 0 {
			return never
		}
		for j := range so.w.hosts {
			if so.w.net.cut[i][j] > 0 || so.w.net.slow[i][j] > 0 {
				return never
			}
		}
	}
	for _, l := range so.w.net.links {
		if l.delivery != delivers || l.stall[0]+l.stall[1] > 0 {
			return never
		}
	}
	return so.disturbed
}

// slowestTrip returns the longest time for a message and its answer without faults.
func (so *serviceOrder) slowestTrip() time.Duration {
	way := so.w.opt.Net.Most * time.Duration(100+so.w.opt.Net.Jitter) / 100
	if so.w.opt.Net.Spikes > 0 {
		way += 10 * so.w.opt.Net.Most
	}
	return 2 * way
}

// checkOrder feeds [check.Order] with a new lease, and counts the requests that it overtakes.
func (so *serviceOrder) checkOrder(r *Request) {
	waits := r.key.waits
	o := check.Order{
		Apart:   2*vote.Skew + so.slowestTrip() + so.w.opt.MaxTTL/100 + so.w.opt.Coalesce,
		Lenient: so.w.opt.TokensOnly || so.w.judge.hasDuplicates,
		Calm: func(since time.Duration) bool {
			well := so.faultFreeSince()
			return well != never && since > time.Duration(well)+so.w.opt.calmAfter()+servedFixed
		},
		WellSince: so.faultFreeSince,
		Soon:      func(f func()) { so.w.At(so.w.idle.idleAtMost(), f) },
		Report:    so.w.judge.violate,
	}
	if n := len(waits); n > 0 && waits[n-1].Asked-r.Asked > o.Apart && !o.Lenient && o.Calm(r.Asked) {
		so.w.marks.mark(markOrder)
	}
	if r.base != nil {
		return
	}
	for _, older := range waits {
		if older.Asked >= r.Asked {
			break
		}
		if !o.IsPassed(&r.Lease, &older.Lease) {
			continue
		}
		so.w.fig.Overtakings++
		older.overtaken++
		so.w.fig.MostOvertaken = max(so.w.fig.MostOvertaken, int64(older.overtaken))
		switch o.Overtakes(&r.Lease, &older.Lease, func() time.Duration { return r.key.upgrading }) {
		case check.OvertakenInTrouble:
			so.w.fig.OvertakenInTrouble++
		case check.OvertakenWrongly:
			return
		}
	}
}
