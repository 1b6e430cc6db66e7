package sim

import (
	"math/rand/v2"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// harmFollowing injects a fault of dynamic membership into a host. Faults beyond the tolerance of
// the mesh are left out: after the loss of a majority of the directories no request can be served
// any more, and an operator is needed.
func (w *World) harmFollowing(h *host, a *Act, r *rand.Rand, did func(bool)) {
	switch a.Fault {
	case FaultWipe:
		if w.spares(h) && w.crash(h, endingMixed, r) {
			w.note(h, "has its directory wiped")
			h.disk = disk{made: h.disk.made}
			w.bringBack(h, a.For)
			did(true)
		}
	case FaultGone:
		if len(w.hosts) > 3 && w.spares(h) && w.crash(h, endingMixed, r) {
			w.note(h, "is gone for good")
			h.retired = true
			did(true)
		}
	case FaultLeave:
		p := h.p
		if p == nil || h.hung != pauseNone {
			return
		}
		w.note(h, "leaves")
		p.m.LeaveElectorate(p.read(w.now))
		w.settle(p)
		did(true)
		w.endsOnceOut(p, r, a.For, leavesTries)
	case FaultDisk:
		if !h.disk.broken {
			h.disk.broken = true
			w.note(h, "can't write to its disk")
			// Until then wellSince counts the disk as faulty.
			w.lasting(a.For, func() { h.disk.broken = false; w.disturb() })
			did(true)
		}
	case FaultProposal:
		w.proposesFor(h, r, a.For, did)
		far := w.hostOf(a.Far)
		if far == nil || far == h || r.IntN(4) == 0 {
			return
		}
		w.proposesFor(far, r, a.For, did)
		if r.IntN(2) == 0 { // neither voter hears of the other's proposal
			w.cutWays([][2]*host{{h, far}, {far, h}}, w.strikeFor(r))
		}
	case FaultStrike:
		w.lurk(h, a.For, r, did)
	case FaultGray:
		ways := w.ways(a)
		if len(ways) == 0 {
			return
		}
		w.note(h, "is gray: gossip alone passes between it and %v", a.Far)
		for _, way := range ways {
			w.setGray(way[0], way[1], 1)
		}
		if r.IntN(2) == 0 {
			w.breakAcross(ways, r)
		}
		w.lasting(a.For, func() {
			for _, way := range ways {
				w.setGray(way[0], way[1], -1)
			}
		})
		did(true)
	case FaultAccuse:
		w.accused[h]++
		w.note(h, "takes all others for dead")
		w.lasting(a.For, func() { w.accused[h]--; w.disturb() })
		did(true)
	}
}

// setGray adds to (or takes from) the cuts of a link for all traffic but gossip, as by a firewall
// dropping only TCP.
func (w *World) setGray(from, to *host, by int) {
	w.gray[[2]*host{from, to}] += by
	w.setCut(from, to, by)
}

// passesGossip reports whether gossip packets pass from one host to another.
func (w *World) passesGossip(from, to *host) bool {
	return w.cut[from.i][to.i] == w.gray[[2]*host{from, to}]
}

// leavesTries is how often a leaving node checks, every quarter of a maximum TTL, whether it is
// voted out, before it ends anyway.
const leavesTries = 32

// endsOnceOut ends a leaving process as soon as it votes no more, and restarts the host some time
// later.
func (w *World) endsOnceOut(p *process, r *rand.Rand, down time.Duration, tries int) {
	w.At(w.opt.MaxTTL/4, func() {
		h := p.host
		if h.p != p || w.calm {
			return
		}
		if e := p.m.Known(); tries > 0 && (e.Version == 0 || e.Has(vote.Elector{Name: h.name, Dir: p.dir})) {
			w.endsOnceOut(p, r, down, tries-1)
			return
		}
		if w.crash(h, endingAtOnce, r) {
			w.said[h] = true
			w.bringBack(h, down)
		}
	})
}
