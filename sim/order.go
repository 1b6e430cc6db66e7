package sim

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Order of service: requests are served in the order in which they were made. Stamps lie within S
// (vote.Skew) of the median of the voters' clocks. If two requests reach all voters, the later
// request is served first only if the two were made within 2 S plus the nodes' error in this
// median: the time for messages to travel, and the drift of clocks between two refreshes. While
// something is wrong, other rules take precedence (for example, a request is passed over if only a
// minority knows of it). So the order is demanded only of requests made after the mesh has been
// well for a while.

// calmTTLs is for how many maximum TTLs nothing must have gone wrong: a startup quarantine, and the
// rest of the sessions of crashed processes.
const calmTTLs = 3

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

// calmFrom reports whether nothing went wrong from a while before the first moment until the
// second.
func (so *serviceOrder) calmFrom(from, to Moment) bool {
	return !slices.ContainsFunc(so.disturbances, func(at Moment) bool { return at.add(calmTTLs*so.w.opt.MaxTTL) >= from && at <= to })
}

// wellSince returns since when nothing has gone wrong; never if something is wrong now.
func (so *serviceOrder) wellSince() Moment {
	if so.w.listsDiffer() || so.w.conversion.isOutOfOrder() {
		return never
	}
	for i, h := range so.w.hosts {
		if so.w.opt.Counted != nil && h.p != nil && !so.w.population.settledIn(h.p) {
			return never
		}
		if h.p == nil && !h.retired && so.w.opt.Counted == nil || h.hung != pauseNone || h.disk.broken || so.w.dynamic.accused[h] > 0 {
			return never
		}
		for j := range so.w.hosts {
			if so.w.net.cut[i][j] > 0 || so.w.net.slow[i][j] > 0 {
				return never
			}
		}
	}
	for _, l := range so.w.net.links {
		if l.fate != fateStands || l.stall[0]+l.stall[1] > 0 {
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

// checkOrder demands that a granted request isn't younger than a waiting request by more than the
// time apart.
func (so *serviceOrder) checkOrder(r *Request) {
	waits := r.key.waits
	apart := 2*vote.Skew + so.slowestTrip() + so.w.opt.MaxTTL/100 + so.w.opt.Linger
	calm := func(since time.Duration) bool {
		well := so.wellSince()
		return well != never && since > time.Duration(well)+calmTTLs*so.w.opt.MaxTTL+servedFixed
	}
	if n := len(waits); n > 0 && waits[n-1].Asked-r.Asked > apart && !so.w.opt.TokensOnly && !so.w.judge.twins && calm(r.Asked) {
		so.w.marks.mark(MarkOrder)
	}
	if r.base != nil {
		// An upgrade precedes all waiting requests, since they wait for the lease that is upgraded.
		return
	}
	for _, o := range waits {
		if o.Asked >= r.Asked {
			break
		}
		if r.Mode == vote.Permit && o.Mode == vote.Permit && o.Ask.Permits != r.Ask.Permits {
			// The request o is going to be refused.
			continue
		}
		so.w.fig.Overtakings++
		o.overtaken++
		so.w.fig.MostOvertaken = max(so.w.fig.MostOvertaken, int64(o.overtaken))
		if r.Asked-o.Asked <= apart || so.w.opt.TokensOnly || so.w.judge.twins {
			continue
		}
		if calm(o.Asked) && !r.bars(o) && o.Mode == r.Mode {
			// Both may be granted, and the younger first only because the older request's votes
			// must be extended or moved before.
			so.w.At(so.w.idle.idleAtMost(), func() {
				// An upgrade precedes all waiting requests, and takes votes from them while they
				// haven't won.
				if o.State == Waiting && calm(o.Asked) && o.key.upgrading < o.Asked {
					so.w.judge.violate(checkOrder, "%s was granted %q, asked for at %v, and %s's request of %v waits still", r.Node, r.Key, r.Asked, o.Node, o.Asked)
				}
			})
			continue
		}
		if calm(o.Asked) {
			so.w.judge.violate(checkOrder, "%s is granted %q, asked for at %v, while %s's request of %v waits and nothing has been wrong since %v", r.Node, r.Key,
				r.Asked, o.Node, o.Asked, time.Duration(so.wellSince()))
			return
		}
		so.w.fig.OvertakenInTrouble++
	}
}
