package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Order of service: who asked first is served first. Stamps stand within S of the median of the voters' clocks, so of two requests
// that reach all voters the later one is served first only if they were asked for within 2 S, and what nodes may err in that median: the
// time that news takes, and how far clocks drift between two refreshes. While
// something is wrong, other rules go first (who reaches a minority only is passed over), so this is demanded of requests made after the
// mesh has been well for a while.

// calmTTLs is for how many maximum TTLs nothing must have gone wrong: a quiet time, and the sessions of those that are gone.
const calmTTLs = 3

// disturb notes that something goes wrong now, or ends doing so.
func (w *World) disturb() { w.disturbed = w.now }

// wellSince returns since when nothing has gone wrong; never if something is wrong now.
func (w *World) wellSince() Moment {
	for i, h := range w.hosts {
		if h.p == nil && !h.retired || h.hung != pauseNone || h.disk.broken || w.accused[h] > 0 {
			return never
		}
		for j := range w.hosts {
			if w.cut[i][j] > 0 || w.slow[i][j] > 0 {
				return never
			}
		}
	}
	for _, l := range w.links {
		if l.fate != fateStands || l.stall[0]+l.stall[1] > 0 {
			return never
		}
	}
	return w.disturbed
}

// slowestTrip is the longest time that a message and its answer take when nothing holds them up.
func (w *World) slowestTrip() time.Duration {
	way := w.opt.Net.Most * time.Duration(100+w.opt.Net.Jitter) / 100
	if w.opt.Net.Spikes > 0 {
		way += 10 * w.opt.Net.Most
	}
	return 2 * way
}

// checkOrder demands that a request that is granted was made at most so much later than each one that waits.
func (w *World) checkOrder(r *Request) {
	waits := r.key.waits
	apart := 2*vote.Skew + w.slowestTrip() + w.opt.MaxTTL/100 + w.opt.Linger
	calm := func(since time.Duration) bool {
		well := w.wellSince()
		return well != never && since > time.Duration(well)+calmTTLs*w.opt.MaxTTL+servedFixed
	}
	if n := len(waits); n > 0 && waits[n-1].Asked-r.Asked > apart && !w.opt.TokensOnly && !w.twins && calm(r.Asked) {
		w.mark(MarkOrder)
	}
	if r.base != nil {
		return // an upgrade goes before all who wait, since they wait for what it stands beside
	}
	for _, o := range waits {
		if o.Asked >= r.Asked {
			break
		}
		if r.Mode == vote.Permit && o.Mode == vote.Permit && o.Ask.Permits != r.Ask.Permits {
			continue // it is to be turned down
		}
		w.fig.Overtakings++
		o.overtaken++
		w.fig.MostOvertaken = max(w.fig.MostOvertaken, int64(o.overtaken))
		if r.Asked-o.Asked <= apart || w.opt.TokensOnly || w.twins {
			continue
		}
		if calm(o.Asked) && !r.bars(o) && o.Mode == r.Mode {
			// Both may be granted, and the younger sooner only since the other's votes must be extended or moved first.
			w.At(w.idleAtMost(), func() {
				// An upgrade goes before all who wait, and takes votes that aren't won yet from them.
				if o.State == Waiting && calm(o.Asked) && o.key.upgrading < o.Asked {
					w.violate(checkOrder, "%s was granted %q, asked for at %v, and %s's request of %v waits still", r.Node, r.Key, r.Asked, o.Node, o.Asked)
				}
			})
			continue
		}
		if calm(o.Asked) {
			w.violate(checkOrder, "%s is granted %q, asked for at %v, while %s's request of %v waits and nothing has been wrong since %v", r.Node, r.Key,
				r.Asked, o.Node, o.Asked, time.Duration(w.wellSince()))
			return
		}
		w.fig.OvertakenInTrouble++
	}
}
