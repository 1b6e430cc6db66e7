package sim

import "math/rand/v2"

// harmFollowing does to a host what only a world whose electorate follows the living knows. What would be more than the mesh can bear isn't
// done: when a majority of the directories is lost, nothing can be served any more, and an operator is needed.
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
		w.At(a.For+8*w.opt.MaxTTL, func() {
			if h.p == p && !w.calm && w.crash(h, endingAtOnce, r) {
				w.said[h] = true
				w.bringBack(h, a.For)
			}
		})
	case FaultDisk:
		if !h.disk.broken {
			h.disk.broken = true
			w.note(h, "can't write to its disk")
			w.lasting(a.For, func() { h.disk.broken = false; w.disturb() }) // wellSince takes it for wrong until then
			did(true)
		}
	case FaultAccuse:
		w.accused[h]++
		w.note(h, "takes all others for dead")
		w.lasting(a.For, func() { w.accused[h]--; w.disturb() })
		did(true)
	}
}
