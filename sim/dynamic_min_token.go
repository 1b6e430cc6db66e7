package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/sim/fault"
)

// winsLate lets a user win a key from old voters alone after the drain has begun, which their
// earlier acknowledgements allow. The new voters never receive a message from the user, and so
// learn of its token only from the minimum token. As soon as the new voters vote alone, other users
// want the key. In half of the cases the old voters are also cut off from the new voters, and stand
// still at the end of the drain. winsLate reports whether such a setup is possible.
func (ne *nemesis) winsLate(r *rand.Rand) bool {
	e, ttl := ne.w.dynamic.decided[ne.w.dynamic.newest], ne.w.opt.MaxTTL
	var fresh, old, users []*host
	for _, h := range ne.w.hosts {
		switch {
		case ne.votesIn(e.Voters, h):
			fresh = append(fresh, h)
		case ne.votesIn(e.Old, h):
			old = append(old, h)
		case h.p != nil && h.hung == pauseNone:
			users = append(users, h)
		}
	}
	if len(old) > len(e.Old)/2+1 { // an old voter can be spared
		users = append(users, old[len(old)-1])
		old = old[:len(old)-1]
	}
	u := oneOf(users, r)
	if u == nil || len(old) < len(e.Old)/2+1 {
		return false
	}
	ne.w.note(nil, "%s is to win late, from %s and not from %s", u.alias, aliases(old), aliases(fresh))
	from := ttl/10 + fault.Within(r, ttl/4)
	silent := r.IntN(2) == 0
	// Connections are given up after half a maximum TTL, and must outlast the drain.
	if silent {
		from = ttl*13/20 + fault.Within(r, ttl/5)
	}
	wake := ne.w.Now() + ttl*23/20 + fault.Within(r, ttl/8)
	ne.w.At(from, func() {
		if ne.w.faults.healed {
			return
		}
		ne.cutBetween([]*host{u}, fresh, bothWays, 4*ttl)
		at, heal := ne.w.Now(), func() {}
		if silent {
			heal = ne.cutBetweenGroups(old, fresh, 2*ttl)
		}
		won := func() {
			if !silent {
				return
			}
			for _, h := range old {
				ne.w.faults.haltFor(h, pauseStopped, wake-ne.w.Now())
			}
			heal()
		}
		ne.hurries([]*host{u}, ttl*3/4, func() bool {
			if ne.holdsSince(u, at) {
				won()
				return true
			}
			return false
		})
	})
	others := slices.DeleteFunc(slices.Clone(ne.w.hosts), func(o *host) bool { return o == u })
	ne.addForAWhile(&pendingFault{step: stepKnows, inject: func(*host) {
		ne.hurries(others, ttl, func() bool { return false })
	}}, 4*ttl)
	return true
}

// hurries makes the idle clients of some hosts ask at once, again and again until enough returns
// true.
func (ne *nemesis) hurries(some []*host, left time.Duration, enough func() bool) {
	if ne.w.faults.healed || ne.w.load.draining || left <= 0 || enough() {
		return
	}
	for _, h := range some {
		if p := h.p; p != nil {
			for i := range p.clients {
				if p.clients[i].r == nil {
					ne.w.load.plan(p, i, 0)
				}
			}
		}
	}
	every := ne.w.opt.MaxTTL / 50
	ne.w.At(every, func() { ne.hurries(some, left-every, enough) })
}

// holdsSince reports whether a client of a host holds a key granted at the given time or later.
func (ne *nemesis) holdsSince(h *host, since time.Duration) bool {
	for _, k := range ne.w.judge.lockKeys {
		for _, q := range k.holds {
			if q.p.host == h && q.Had >= since {
				return true
			}
		}
	}
	return false
}
