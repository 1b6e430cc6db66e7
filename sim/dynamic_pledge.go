package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// disturbPledges disturbs the pledges of the founders. Saves take long. In a third of the cases a
// founder crashes at its first save. Otherwise a founder may be cut off from all but one of the
// others, and all founders crash as soon as any of them applies an electorate, mostly with the loss
// of the saves under way. If the others have pledged to a set with that founder, the founder comes
// back with another directory for a while, as if a disk weren't mounted; the others must wait for
// its own directory. If no other founder has pledged, the founder's directory may be lost: its own
// pledge alone founds nothing.
func (ne *nemesis) disturbPledges(founders []*host, r *rand.Rand) {
	ttl := ne.w.opt.MaxTTL
	d := 2*ttl + fault.Within(r, 2*ttl)
	for _, h := range founders {
		ne.slowDisk(h, ttl/20+fault.Within(r, ttl/2), d)
	}
	if r.IntN(3) == 0 {
		ne.crashesAtFirstSave(founders[0], r)
		return
	}
	heal := func() {}
	if n := len(founders); r.IntN(2) == 0 && n > 2 {
		heal = ne.cutBetweenGroups(founders[1:2], founders[2:], d)
	}
	ne.addForAWhile(&pendingFault{step: stepKnows, any: true, inject: func(h *host) {
		heal()
		ne.foundsAnew(h, founders, r)
	}}, 10*ttl)
}

// crashesAtFirstSave crashes a founder during its first save, a while after the others have met the
// founder.
func (ne *nemesis) crashesAtFirstSave(h *host, r *rand.Rand) {
	ne.slowDisk(h, ne.w.opt.MaxTTL, ne.w.opt.MaxTTL)
	ne.w.At(ne.w.opt.MaxTTL/4+fault.Within(r, ne.w.opt.MaxTTL*3/4), func() {
		if ne.w.faults.healed || h.p == nil || h.disk.exists {
			return
		}
		h.disk.saving = nil
		ne.w.crash(h, endingAtOnce, r)
		ne.w.faults.bringBack(h, fault.Within(r, ne.w.opt.MaxTTL/5))
	})
}

// foundsAnew crashes all founders, and restarts h with another directory where the mesh can bear
// the loss.
func (ne *nemesis) foundsAnew(h *host, founders []*host, r *rand.Rand) {
	if ne.w.faults.healed || !slices.Contains(founders, h) {
		return
	}
	for _, o := range founders {
		if o == h || r.IntN(4) > 0 {
			o.disk.saving = nil
		}
		ne.w.crash(o, endingAtOnce, r)
	}
	self := vote.Elector{Name: h.name, Dir: h.disk.state.Dir}
	pledged, others := 0, 0
	for _, o := range founders {
		switch {
		case o == h:
		case o.disk.state.Electorate.Version > 0: // this founder may need h's vote
			others += len(founders)
		case slices.Contains(o.disk.state.Pledge, self):
			pledged++
			others++
		case len(o.disk.state.Pledge) == 0:
			others++
		default: // this founder has pledged to another set
			others += len(founders)
		}
	}
	switch {
	case h.disk.made > 1 || others >= len(founders):
	case pledged == 0:
		ne.w.note(h, "has its directory wiped")
		h.disk = disk{made: h.disk.made}
	case pledged == others:
		ne.losesDirectory(h, ne.w.opt.MaxTTL+fault.Within(r, ne.w.opt.MaxTTL))
	}
	for _, o := range founders {
		ne.w.faults.bringBack(o, ne.w.opt.MaxTTL/50+fault.Within(r, ne.w.opt.MaxTTL/5))
	}
}

// losesDirectory restarts a stopped host without its directory, and restores the directory after a
// while, unless the host learns of an electorate before: then the nodes of the electorate can do
// without the old directory.
func (ne *nemesis) losesDirectory(h *host, d time.Duration) {
	ne.w.note(h, "can't find its directory")
	own := h.disk
	h.disk = disk{made: own.made}
	ne.w.faults.lasting(d, func() {
		s := h.disk.saving
		if h.disk.state.Electorate.Version > 0 || s != nil && s.Electorate.Version > 0 {
			return
		}
		ne.w.crash(h, endingAtOnce, nil)
		ne.w.note(h, "has its directory again")
		made := h.disk.made
		h.disk = own
		h.disk.made, h.disk.broken, h.disk.frozen, h.disk.waits = made, false, false, nil
		ne.w.faults.bringBack(h, ne.w.opt.MaxTTL/20)
	})
}
