package sim

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// misconfigured is the part of a world for misconfigured processes beside a mesh that is born by
// count: each has a fixed list of voters with its own name only. The mesh expects more processes,
// so it has the stronger configuration: only the misconfigured processes may stop, and the mesh
// must go on. Misconfigured processes have no clients, since without contact they can't know of the
// mesh; the world checks whose votes count.
type misconfigured struct {
	w  *World
	on map[*host]bool // the hosts whose next process is a misconfigured process
}

// is reports whether a host's next process is a misconfigured process.
func (s *misconfigured) is(h *host) bool { return s.on[h] }

// mayExist reports whether a world may have misconfigured processes.
func (s *misconfigured) mayExist() bool { return s.w.opt.Faults.Weights[fault.Misconfigure] > 0 }

// misconfigure restarts a NonVoting process as a misconfigured process, and after a while as it
// was.
func (s *misconfigured) misconfigure(h *host, reachedWithin time.Duration, r *rand.Rand) bool {
	w := s.w
	if h.voter || s.on[h] {
		return false
	}
	if s.on == nil {
		s.on = make(map[*host]bool)
	}
	s.on[h] = true
	w.crash(h, endingAtOnce, nil)
	quiet := 2 * w.opt.MaxTTL // the misconfigured process's votes count by then
	for _, o := range w.hosts {
		if o != h {
			w.nemesis.cutWays([][2]*host{{h, o}, {o, h}}, quiet+fault.Within(r, reachedWithin))
		}
	}
	w.note(h, "is misconfigured")
	w.start(h)
	w.faults.lasting(quiet+reachedWithin+fault.Within(r, 4*w.opt.MaxTTL), func() {
		delete(s.on, h)
		w.crash(h, endingAtOnce, nil)
		w.note(h, "has its configuration corrected")
		w.start(h)
	})
	return true
}

// meets notes what a misconfigured process learns of a process of the mesh.
func (s *misconfigured) meets(p, other *process, standing vote.Standing) {
	if p.met != nil && other.met == nil {
		p.met[other.host.name] = standing
	}
}

// check demands that a misconfigured process's votes don't count beside those of a voter of the
// mesh, once the misconfigured process has met the voter.
func (s *misconfigured) check(p *process) {
	if p.met == nil || !p.m.Voter().Counting() {
		return
	}
	for _, h := range s.w.hosts {
		if p.met[h.name] == vote.StandingCounting {
			s.w.judge.violate(checkMisconfigured, "the votes of %s count, and it has met %s, whose votes count under a stronger configuration", p.host.alias, h.name)
		}
	}
}

// givesWay reports whether an alarm is one of a misconfigured process that gives way to the mesh.
func (s *misconfigured) givesWay(p *process, alarm string) bool {
	does := p.met != nil && strings.Contains(alarm, "withdraws in favor of")
	s.w.fig.GaveWay += uint64(bit(does))
	return does
}

// misconfiguredDraws names the kind of world in its draws. The name is older than the others:
// another name would make each seed another world.
const misconfiguredDraws = "strangers"

// DrawMisconfigured is DrawByCount, or in a third of all worlds DrawWithRegister, with NonVoting
// processes, which are misconfigured now and then.
func DrawMisconfigured(seed uint64) Options {
	o, d := DrawByCount(seed), draws{seed, misconfiguredDraws}
	if d.intN("register", 3) == 0 {
		o = DrawWithRegister(seed)
	}
	o.Clients = d.pickInt("non-voting", 1, 1, 2)
	if w := &o.Faults.Weights; !o.isQuiet() {
		w[fault.Misconfigure] = d.pickInt("weight/Misconfigure", 4, 12)
	}
	return o
}
