package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
)

// ambushFloor waits for a joint electorate, and then separates the new voters from the old voters
// and their users until shortly after the drain. Meanwhile a user may win a key from the old
// voters, still bound by their earlier acknowledgements, with a token unknown to the new voters but
// for the minimum token.
func (w *World) ambushFloor(r *rand.Rand) bool {
	if w.now < w.ambushedUntil {
		return false
	}
	d := 3 * w.opt.MaxTTL
	w.ambushedUntil = w.now.add(d)
	w.await(&lurk{step: stepKnows, joint: true, strike: func(*host) {
		if !w.calm && (r.IntN(2) == 0 || !w.winsLate(r)) {
			w.partsAtDrain(r)
		}
	}}, d)
	return true
}

func (w *World) partsAtDrain(r *rand.Rand) {
	e, ttl := w.decided[w.newest], w.opt.MaxTTL
	var fresh, others, old []*host
	for _, h := range w.hosts {
		switch {
		case w.votesIn(e.Voters, h):
			fresh = append(fresh, h)
		case w.votesIn(e.Old, h):
			old = append(old, h)
			others = append(others, h)
		case r.IntN(4) == 0:
			fresh = append(fresh, h)
		default:
			others = append(others, h)
		}
	}
	from := ttl/10 + within(r, ttl*3/4)
	until := electorate.Drain(ttl) + ttl/20 + within(r, ttl/2)
	w.At(from, func() {
		if !w.calm {
			w.cutBetween(fresh, others, bothWays, until-from)
		}
	})
	if o := oneOf(old, r); o != nil && r.IntN(3) == 0 {
		w.At(from, func() {
			if !w.calm {
				w.cutFor(o, w.hosts, bothWays, 2*ttl)
			}
		})
	}
	if r.IntN(2) == 0 { // the new voters are late to store the messages received
		w.await(&lurk{step: stepKnows, strike: func(*host) {
			for _, h := range fresh {
				w.slowDisk(h, ttl/10+within(r, ttl/2), ttl)
			}
		}}, 2*until)
	}
}

// harassFounding disturbs the founders during the bootstrap: partitions in two, slow disks, and
// crashes at the first saves. After the bootstrap, an expendable founder loses its directory and
// comes back among the hosts still unaware of the electorate.
func (w *World) harassFounding() {
	if f := w.opt.Following; f == nil || f.Aim != AimFound {
		return
	}
	r, ttl := rand.New(w.chance("founding")), w.opt.MaxTTL
	founders := slices.Clone(w.hosts[:w.opt.Voters])
	r.Shuffle(len(founders), func(i, j int) { founders[i], founders[j] = founders[j], founders[i] })
	if r.IntN(2) == 0 {
		w.harassPledges(founders, r)
		return
	}
	side := len(founders)/2 + 1
	d := ttl + within(r, 4*ttl)
	heal := func() {}
	if r.IntN(3) > 0 {
		heal = w.cutApart(founders[:side], founders[side:], d)
	}
	for _, h := range founders {
		if r.IntN(2) == 0 {
			w.slowDisk(h, within(r, ttl/2), d)
		}
		if r.IntN(2) == 0 {
			b := &lurk{step: stepSaves + step(r.IntN(2)), host: h, nth: r.IntN(3)}
			b.strike = func(*host) {
				if r.IntN(4) > 0 {
					h.disk.saving = nil
				}
				if !w.calm && w.crash(h, endingAtOnce, r) {
					w.bringBack(h, within(r, ttl/5))
				}
			}
			w.await(b, d)
		}
	}
	w.await(&lurk{step: stepKnows, any: true, strike: func(*host) {
		w.At(within(r, ttl), func() { w.movesOver(founders, heal, r) })
	}}, 10*ttl)
}

// movesOver wipes the directory of a founder in the electorate, and restarts the host among the
// founders outside of the electorate.
func (w *World) movesOver(founders []*host, heal func(), r *rand.Rand) {
	e := w.decided[1]
	var in, out []*host
	for _, h := range founders {
		if w.votesIn(e.Voters, h) {
			in = append(in, h)
		} else {
			out = append(out, h)
		}
	}
	h := oneOf(in, r)
	if w.calm || h == nil || !w.spares(h) {
		return
	}
	d := w.opt.MaxTTL + within(r, 3*w.opt.MaxTTL)
	in = slices.DeleteFunc(in, func(o *host) bool { return o == h })
	heal()
	w.cutApart(in, append(slices.Clone(out), h), d)
	w.crash(h, endingAtOnce, r)
	w.note(h, "has its directory wiped")
	h.disk = disk{made: h.disk.made}
	w.bringBack(h, within(r, w.opt.MaxTTL/5))
	for _, o := range out {
		if r.IntN(2) == 0 && w.crash(o, endingAtOnce, r) {
			w.bringBack(o, within(r, w.opt.MaxTTL/5))
		}
	}
}

// cutApart cuts some hosts off from others, in both directions, until heal is called, or for d at
// most.
func (w *World) cutApart(some, others []*host, d time.Duration) (heal func()) {
	var heals []func()
	for _, h := range some {
		heals = append(heals, w.cutUntil(h, others, bothWays, d))
	}
	return func() {
		for _, f := range heals {
			f()
		}
	}
}
