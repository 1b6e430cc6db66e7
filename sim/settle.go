package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Bounds of what the world demands once all is well again.
const (
	// servedTTLs is within how many maximum TTLs everyone is served, on top of what it takes to serve so many in turn: one quiet
	// time, the rest of the sessions of dead lives, and connections that must be given up first.
	servedTTLs = 5
	// servedFixed is the part that doesn't depend on the TTL: dials that time out and the question for tokens.
	servedFixed = 2*dialTimeout + redialMost + 2*vote.AskFor
	// servedEach is the time for one waiter, besides servedTrips of the slowest way there and back: it is granted, holds for up to
	// 10 ms (workload.go), and releases; perhaps a tenure must end.
	servedEach  = 200 * time.Millisecond
	servedTrips = 4
)

// Settle ends the faults and demands what must come true then: every waiter is served in time, everything is given back, and
// nothing is left behind. It returns the first violation of the whole run, or nil.
func (w *World) Settle() error {
	if w.failed != nil {
		return w.failed
	}
	w.Heal()
	w.drain()
	waiting := w.waiting
	trip := 2 * w.opt.Net.Most * time.Duration(100+w.opt.Net.Jitter) / 100
	limit := servedTTLs*w.opt.MaxTTL + servedFixed + time.Duration(waiting)*(servedEach+servedTrips*trip+w.lingersAtMost())
	start := w.Now()
	if !w.RunUntil(limit, func() bool { return w.waiting == 0 }) && w.failed == nil {
		w.violate(checkLiveness, "%d of %d that waited aren't served within %v:%s", w.waiting, waiting, limit, w.whoWaits())
	}
	w.fig.Settling = int64(100 * (w.Now() - start) / limit)
	// What is held is given back soon, and a release takes a TTL at most.
	w.Run(w.opt.MaxTTL + time.Second)
	if w.failed == nil {
		for _, h := range w.hosts {
			if h.p == nil {
				continue
			}
			if n := len(h.p.requests); n > 0 {
				w.violate(checkLiveness, "%s still has %d requests:%s", h.name, n, w.whoWaits())
			}
		}
	}
	// Sessions of dead lives end, and keys that nobody wants are forgotten.
	w.Run(2*w.opt.MaxTTL + 3*vote.Skew)
	if w.failed == nil {
		w.baseline()
	}
	if w.failed == nil {
		w.checkHistory()
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
					h.p.m.Why(h.p.read(w.now), r.Number).Text)
			}
		}
	}
	return b.String()
}

// baseline demands that nobody remembers what is over.
func (w *World) baseline() {
	for _, h := range w.hosts {
		if h.p == nil {
			continue
		}
		if n := h.p.m.Requester().Open(); n > 0 {
			w.violate(checkBaseline, "%s's requester keeps %d requests", h.name, n)
		}
		if v := h.p.m.Voter(); v != nil {
			if s := v.Size(); s.Keys > 0 || s.Requests > 0 || s.Sessions > len(w.hosts) {
				w.violate(checkBaseline, "%s's voter keeps %d keys, %d requests and %d sessions of %d nodes", h.name, s.Keys, s.Requests,
					s.Sessions, len(w.hosts))
			}
		}
	}
}
