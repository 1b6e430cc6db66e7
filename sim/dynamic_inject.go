package sim

import (
	"math/rand/v2"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// injectDynamic injects a fault of dynamic membership into a host. Faults beyond the tolerance of
// the mesh are left out: after the loss of a majority of the directories no request can be served
// any more, and an operator is needed.
func (ne *nemesis) injectDynamic(h *host, a *Act, r *rand.Rand, did func(bool)) {
	switch a.Fault {
	case fault.Wipe:
		if ne.w.dynamic.canLoseDisk(h) && ne.w.crash(h, endingMixed, r) {
			ne.w.note(h, "has its directory wiped")
			h.disk = disk{made: h.disk.made}
			ne.w.faults.bringBack(h, a.For)
			did(true)
		}
	case fault.Gone:
		if len(ne.w.hosts) > 3 && ne.w.dynamic.canLoseDisk(h) && ne.w.crash(h, endingMixed, r) {
			ne.w.note(h, "is gone for good")
			h.retired = true
			did(true)
		}
	case fault.Leave:
		p := h.p
		if p == nil || h.hung != pauseNone {
			return
		}
		ne.w.note(h, "leaves")
		p.m.LeaveElectorate(p.read(ne.w.now))
		ne.w.settle(p)
		did(true)
		ne.endsOnceOut(p, r, a.For, leavesTries)
	case fault.Disk:
		if !h.disk.broken {
			h.disk.broken = true
			ne.w.note(h, "can't write to its disk")
			// Until then faultFreeSince counts the disk as faulty.
			ne.w.faults.lasting(a.For, func() { h.disk.broken = false; ne.w.order.disturb() })
			did(true)
		}
	case fault.Proposal:
		ne.proposesFor(h, r, a.For, did)
		far := ne.w.faults.hostOf(a.Far)
		if far == nil || far == h || r.IntN(4) == 0 {
			return
		}
		ne.proposesFor(far, r, a.For, did)
		if r.IntN(2) == 0 { // neither voter hears of the other's proposal
			ne.cutWays([][2]*host{{h, far}, {far, h}}, ne.faultDuration(r))
		}
	case fault.Targeted:
		ne.addPending(h, a.For, r, did)
	case fault.Gray:
		ways := ne.w.faults.ways(a)
		if len(ways) == 0 {
			return
		}
		ne.w.note(h, "is gray: gossip alone passes between it and %v", a.Far)
		for _, way := range ways {
			ne.setGray(way[0], way[1], 1)
		}
		if r.IntN(2) == 0 {
			ne.w.faults.breakAcross(ways, r)
		}
		ne.w.faults.lasting(a.For, func() {
			for _, way := range ways {
				ne.setGray(way[0], way[1], -1)
			}
		})
		did(true)
	case fault.Accuse:
		ne.w.dynamic.reportFailed[h]++
		ne.w.note(h, "takes all others for dead")
		ne.w.faults.lasting(a.For, func() { ne.w.dynamic.reportFailed[h]--; ne.w.order.disturb() })
		did(true)
	}
}

// setGray adds to (or takes from) the cuts of a link for all traffic but gossip, as by a firewall
// dropping only TCP.
func (ne *nemesis) setGray(from, to *host, by int) {
	ne.w.dynamic.gray[[2]*host{from, to}] += by
	ne.w.net.setCut(from, to, by)
}

// passesGossip reports whether gossip packets pass from one host to another.
func (ne *nemesis) passesGossip(from, to *host) bool {
	return ne.w.net.cut[from.i][to.i] == ne.w.dynamic.gray[[2]*host{from, to}]
}

// leavesTries is how often a leaving node checks, every quarter of a maximum TTL, whether it is
// voted out, before it ends anyway.
const leavesTries = 32

// endsOnceOut ends a leaving process as soon as it votes no more, and restarts the host some time
// later.
func (ne *nemesis) endsOnceOut(p *process, r *rand.Rand, down time.Duration, tries int) {
	ne.w.At(ne.w.opt.MaxTTL/4, func() {
		h := p.host
		// Without its disk, a process that leaves is of no use to a birth either.
		counted := ne.w.opt.ByCount != nil
		if h.p != p || ne.w.faults.healed && !counted {
			return
		}
		if e := p.m.Known(); e != nil && tries > 0 && (e.Version == 0 && !counted || e.Has(vote.Elector{Name: h.name, Dir: p.dir})) {
			ne.endsOnceOut(p, r, down, tries-1)
			return
		}
		if ne.w.crash(h, endingAtOnce, r) {
			ne.w.dynamic.left[h] = true
			ne.w.faults.bringBack(h, down)
		}
	})
}
