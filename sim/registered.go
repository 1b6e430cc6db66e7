package sim

import (
	"math/rand/v2"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// registry is the register of a world whose mesh is born by count: a record outside of all hosts,
// with compare-and-set. Calls take a while in each direction. Some time out, before or after the
// register has carried them out, or while they are still on their way: a store may be carried out
// long after its process has given it up. Some loads are answered by a replica that is behind, with
// an earlier record; a store compares with the present record.
type registry struct {
	w      *World
	record vote.RegisterRecord
	past   []vote.RegisterRecord // the records before, the latest last, up to pastMax
	cut    map[*host]int         // how many faults keep a host's calls from it
	rng    *rand.Rand
	behind *rand.Rand // which loads are answered with an earlier record
}

// pastMax is how many records a replica may be behind.
const pastMax = 4

// trip returns the longest time that a call takes in one direction, unless it is late.
func (re *registry) trip() time.Duration { return re.w.opt.MaxTTL / 10 }

// calls carries out a process's call.
func (re *registry) calls(p *process, call vote.RegisterCall) {
	w := re.w
	if re.rng == nil {
		re.rng = rand.New(fault.Chance(w.opt.Seed, "register"))
		re.behind = rand.New(fault.Chance(w.opt.Seed, "register/behind"))
	}
	answered := false
	answer := func(r vote.RegisterResult) {
		if answered {
			return
		}
		answered = true
		w.push(event{at: w.now + 1, kind: eventRun, p: p, f: func() {
			p.m.Registered(p.read(w.now), r)
			w.settle(p)
		}})
	}
	w.At(w.opt.MaxTTL/2, func() { answer(vote.RegisterResult{Failed: "no answer in time"}) })
	there := fault.Within(re.rng, re.trip())
	if re.rng.IntN(20) == 0 {
		there = fault.Within(re.rng, 2*w.opt.ByCount.Register)
	}
	w.At(there, func() {
		if re.cut[p.host] > 0 {
			return
		}
		r := re.carryOut(p, call)
		if re.rng.IntN(20) > 0 {
			w.At(fault.Within(re.rng, re.trip()), func() { answer(r) })
		}
	})
}

// carryOut has the register do what a call asks for.
func (re *registry) carryOut(p *process, call vote.RegisterCall) vote.RegisterResult {
	switch {
	case !call.Store && !re.w.faults.healed && len(re.past) > 0 && re.behind.IntN(10) == 0:
		re.w.fig.Behind++
		return vote.RegisterResult{Record: re.past[re.behind.IntN(len(re.past))]}
	case !call.Store:
		return vote.RegisterResult{Record: re.record}
	case call.Old != re.record:
		return vote.RegisterResult{Changed: true}
	}
	if re.record.Lineage != call.New.Lineage {
		re.w.note(p.host, "has the register name mesh %x", call.New.Lineage)
		re.w.fig.Registrations++
	}
	re.past = append(re.past, re.record)
	re.past = re.past[max(0, len(re.past)-pastMax):]
	re.record = call.New
	return vote.RegisterResult{}
}

// inject keeps the calls of some hosts from the register for a while.
func (re *registry) inject(h *host, a *Act, r *rand.Rand, did func(bool)) {
	w := re.w
	if w.opt.ByCount.Register == 0 {
		return
	}
	if re.cut == nil {
		re.cut = make(map[*host]int)
	}
	var hosts []*host
	switch r.IntN(4) {
	case 0:
		hosts = []*host{h}
	case 1:
		hosts = w.hosts
	case 2:
		for _, h := range w.hosts {
			if r.IntN(2) == 0 {
				hosts = append(hosts, h)
			}
		}
	case 3: // the mesh goes on without the register, which others reach, and doesn't hear of them
		var ways [][2]*host
		for _, h := range w.hosts {
			if !w.population.knows(h) {
				continue
			}
			hosts = append(hosts, h)
			for _, o := range w.hosts {
				if !w.population.knows(o) {
					ways = append(ways, [2]*host{h, o}, [2]*host{o, h})
				}
			}
		}
		w.nemesis.cutWays(ways, a.For)
	}
	change := func(by int) {
		for _, h := range hosts {
			re.cut[h] += by
		}
	}
	change(1)
	w.order.disturb()
	w.note(h, "the register is out of reach of %d hosts", len(hosts))
	w.At(a.For, func() { change(-1); w.order.disturb() })
	did(true)
}

// DrawWithRegister is DrawByCount with a register, with more processes than any bound allows for,
// and in a third of all worlds with changes of the maximum TTL.
func DrawWithRegister(seed uint64) Options {
	o := DrawByCount(seed)
	d := draws{seed, "registered"}
	more := 1 + d.intN("more", 4)
	o.ByCount.Most += more
	o.Voters += more
	o.ByCount.First = o.ByCount.Expect + d.intN("first", o.ByCount.Most-o.ByCount.Expect+1)
	o.ByCount.Register = o.MaxTTL * time.Duration(4+d.intN("term", 8))
	if d.intN("long-holds", 3) == 0 {
		// A lease that is wrongly renewed must still be held when the next mesh grants the key: a
		// birth takes some seconds.
		o.Load.Hold = 12 * o.MaxTTL
	}
	w := &o.Faults.Weights
	w[fault.Apart], w[fault.Register] = max(w[fault.Apart], 4), 1+d.intN("weight/Register", 3)
	if !o.isQuiet() { // each restart costs a voter its vote
		o.drawMaxTTLChanges()
	}
	o.Load.Mix.LengthLeast = o.lengthLeast()
	return o
}
