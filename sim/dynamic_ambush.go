package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// ambushMinToken waits for a joint electorate, and then separates the new voters from the old
// voters and their users until shortly after the drain. Meanwhile a user may win a key from the old
// voters, still bound by their earlier acknowledgements, with a token unknown to the new voters but
// for the minimum token.
func (ne *nemesis) ambushMinToken(r *rand.Rand) bool {
	if ne.w.now < ne.ambushedUntil {
		return false
	}
	d := 3 * ne.w.opt.MaxTTL
	ne.ambushedUntil = ne.w.now.Add(d)
	ne.addForAWhile(&pendingFault{step: stepKnows, joint: true, inject: func(*host) {
		if !ne.w.faults.healed && (r.IntN(2) == 0 || !ne.winsLate(r)) {
			ne.partsAtDrain(r)
		}
	}}, d)
	return true
}

func (ne *nemesis) partsAtDrain(r *rand.Rand) {
	e, ttl := ne.w.dynamic.decided[ne.w.dynamic.newest], ne.w.opt.MaxTTL
	var fresh, others, old []*host
	for _, h := range ne.w.hosts {
		switch {
		case ne.votesIn(e.Voters, h):
			fresh = append(fresh, h)
		case ne.votesIn(e.Old, h):
			old = append(old, h)
			others = append(others, h)
		case r.IntN(4) == 0:
			fresh = append(fresh, h)
		default:
			others = append(others, h)
		}
	}
	from := ttl/10 + fault.Within(r, ttl*3/4)
	until := electorate.Drain(ttl) + ttl/20 + fault.Within(r, ttl/2)
	ne.w.At(from, func() {
		if !ne.w.faults.healed {
			ne.cutBetween(fresh, others, bothWays, until-from)
		}
	})
	if o := oneOf(old, r); o != nil && r.IntN(3) == 0 {
		ne.w.At(from, func() {
			if !ne.w.faults.healed {
				ne.cutFor(o, ne.w.hosts, bothWays, 2*ttl)
			}
		})
	}
	if r.IntN(2) == 0 { // the new voters are late to store the messages received
		ne.addForAWhile(&pendingFault{step: stepKnows, inject: func(*host) {
			for _, h := range fresh {
				ne.slowDisk(h, ttl/10+fault.Within(r, ttl/2), ttl)
			}
		}}, 2*until)
	}
}

// disturbFounding disturbs the founders during the bootstrap: partitions in two, slow disks, and
// crashes at the first saves. After the bootstrap, an expendable founder loses its directory and
// comes back among the hosts still unaware of the electorate.
func (ne *nemesis) disturbFounding() {
	if f := ne.w.opt.Dynamic; f == nil || f.Aim != AimFound {
		return
	}
	r, ttl := rand.New(ne.w.chance("founding")), ne.w.opt.MaxTTL
	founders := slices.Clone(ne.w.hosts[:ne.w.opt.Voters])
	r.Shuffle(len(founders), func(i, j int) { founders[i], founders[j] = founders[j], founders[i] })
	if r.IntN(2) == 0 {
		ne.disturbPledges(founders, r)
		return
	}
	side := len(founders)/2 + 1
	d := ttl + fault.Within(r, 4*ttl)
	heal := func() {}
	if r.IntN(3) > 0 {
		heal = ne.cutBetweenGroups(founders[:side], founders[side:], d)
	}
	for _, h := range founders {
		if r.IntN(2) == 0 {
			ne.slowDisk(h, fault.Within(r, ttl/2), d)
		}
		if r.IntN(2) == 0 {
			b := &pendingFault{step: stepSaves + step(r.IntN(2)), host: h, nth: r.IntN(3)}
			b.inject = func(*host) {
				if r.IntN(4) > 0 {
					h.disk.saving = nil
				}
				if !ne.w.faults.healed && ne.w.crash(h, endingAtOnce, r) {
					ne.w.faults.bringBack(h, fault.Within(r, ttl/5))
				}
			}
			ne.addForAWhile(b, d)
		}
	}
	ne.addForAWhile(&pendingFault{step: stepKnows, any: true, inject: func(*host) {
		ne.w.At(fault.Within(r, ttl), func() { ne.movesOver(founders, heal, r) })
	}}, 10*ttl)
}

// movesOver wipes the directory of a founder in the electorate, and restarts the host among the
// founders outside of the electorate.
func (ne *nemesis) movesOver(founders []*host, heal func(), r *rand.Rand) {
	e := ne.w.dynamic.decided[1]
	var in, out []*host
	for _, h := range founders {
		if ne.votesIn(e.Voters, h) {
			in = append(in, h)
		} else {
			out = append(out, h)
		}
	}
	h := oneOf(in, r)
	if ne.w.faults.healed || h == nil || !ne.w.dynamic.canLoseDisk(h) {
		return
	}
	d := ne.w.opt.MaxTTL + fault.Within(r, 3*ne.w.opt.MaxTTL)
	in = slices.DeleteFunc(in, func(o *host) bool { return o == h })
	heal()
	ne.cutBetweenGroups(in, append(slices.Clone(out), h), d)
	ne.w.crash(h, endingAtOnce, r)
	ne.w.note(h, "has its directory wiped")
	h.disk = disk{made: h.disk.made}
	ne.w.faults.bringBack(h, fault.Within(r, ne.w.opt.MaxTTL/5))
	for _, o := range out {
		if r.IntN(2) == 0 && ne.w.crash(o, endingAtOnce, r) {
			ne.w.faults.bringBack(o, fault.Within(r, ne.w.opt.MaxTTL/5))
		}
	}
}

// cutBetweenGroups cuts some hosts off from others, in both directions, until heal is called, or
// for d at most.
func (ne *nemesis) cutBetweenGroups(some, others []*host, d time.Duration) (heal func()) {
	var heals []func()
	for _, h := range some {
		heals = append(heals, ne.cutUntil(h, others, bothWays, d))
	}
	return func() {
		for _, f := range heals {
			f()
		}
	}
}
