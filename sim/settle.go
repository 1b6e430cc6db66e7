package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Bounds of the world's demands once all faults are over.
const (
	// servedTTLs is within how many maximum TTLs every request is served, besides the time to serve
	// the requests in turn: a startup quarantine, the rest of the sessions of crashed incarnations,
	// and connections that must be given up first.
	servedTTLs = 5
	// servedFixed is the part independent of the TTL: dials that time out, and the query for
	// tokens.
	servedFixed = 2*dialTimeout + redialMost + 2*vote.TokenQueryTimeout
	// servedEach is the time for each waiter, besides servedTrips of the slowest round trip: the
	// waiter is granted the key, holds the key for up to 10 ms (workload.go), and releases; perhaps
	// a proposal timeout must expire.
	servedEach  = 200 * time.Millisecond
	servedTrips = 4
)

// Settle ends the faults and makes the demands of a world without faults: every waiter is served in
// time, everything is given back, and nothing is left behind. Settle returns the first violation of
// the whole run, or nil.
func (w *World) Settle() error {
	if w.failed != nil {
		return w.failed
	}
	w.faults.Heal()
	w.relistAll()
	w.conversion.becomeAll()
	w.load.drain()
	waiting := w.load.waiting
	trip := 2 * w.opt.Net.Most * time.Duration(100+w.opt.Net.Jitter) / 100
	limit := servedTTLs*w.opt.MaxTTL + servedFixed + time.Duration(waiting)*(servedEach+servedTrips*trip+w.net.coalescingAtMost())
	limit += w.population.rebirthLimit() + w.conversion.settlesLater()
	start := w.Now()
	if !w.RunUntil(limit, func() bool { return w.load.waiting == 0 }) && w.failed == nil {
		w.judge.violate(checkLiveness, "%d of %d that waited aren't served within %v:%s", w.load.waiting, waiting, limit, w.whoWaits())
	}
	w.fig.Settling = int64(100 * (w.Now() - start) / limit)
	// Held leases are given back soon, and a release takes at most a TTL.
	w.Run(w.opt.MaxTTL + time.Second)
	if w.failed == nil {
		for _, h := range w.hosts {
			if h.p == nil {
				continue
			}
			if n := len(h.p.requests); n > 0 {
				w.judge.violate(checkLiveness, "%s still has %d requests:%s", h.name, n, w.whoWaits())
			}
		}
	}
	// Sessions of crashed incarnations end, and unused keys are forgotten.
	w.Run(2*w.opt.MaxTTL + 3*vote.Skew)
	if w.failed == nil {
		w.baseline()
		w.watchers.checkWatches()
	}
	if w.failed == nil {
		w.histories.checkHistory()
	}
	return w.Err()
}

func (w *World) whoWaits() string {
	var b strings.Builder
	for _, h := range w.hosts {
		if h.p == nil {
			continue
		}
		for n := range h.p.asked {
			if r := h.p.requests[vote.Number(n)]; r != nil {
				fmt.Fprintf(&b, " %s's request %d of %q is %v since %v (%s);", h.name, n, r.Key, r.State, r.Asked,
					h.p.m.PendingReason(h.p.read(w.now), r.Number).Text)
			}
		}
	}
	return b.String()
}

// baseline demands that no node remembers requests, keys or sessions after their end.
func (w *World) baseline() {
	for _, h := range w.hosts {
		if h.p == nil {
			continue
		}
		if n := h.p.m.Requester().Open(); n > 0 {
			w.judge.violate(checkBaseline, "%s's requester keeps %d requests", h.name, n)
		}
		if v := h.p.m.Voter(); v != nil {
			if s := v.Size(); s.Keys > 0 || s.Requests > 0 || s.Sessions > len(w.hosts) {
				w.judge.violate(checkBaseline, "%s's voter keeps %d keys, %d requests and %d sessions of %d nodes", h.name, s.Keys, s.Requests,
					s.Sessions, len(w.hosts))
			}
		}
	}
}
