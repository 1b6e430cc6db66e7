package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// Ambushes of several steps, each aimed at a single rule of an election. With independent faults
// the steps hardly ever come in the harmful order. Each step by itself is a crash, a cut, a slow
// disk or a proposal, and so within the assumptions.

// ambushElection starts an ambush as soon as the newest electorate is final and all its voters run,
// unless an ambush is under way or the wait takes too long.
func (ne *nemesis) ambushElection(r *rand.Rand, left time.Duration, did func(bool)) {
	if ne.w.faults.healed || ne.w.now < ne.ambushedUntil {
		return
	}
	ambush := ne.ballotRace
	switch r.IntN(6) {
	case 0, 1:
		ambush = ne.interrupt
	case 2, 3, 4:
		ambush = ne.ambushThree
	}
	if d := ambush(r); d > 0 {
		ne.ambushedUntil = ne.w.now.Add(d)
		did(true)
		return
	}
	if again := ne.w.opt.MaxTTL / 50; left > again {
		ne.w.At(again, func() { ne.ambushElection(r, left-again, did) })
	}
}

// ballotRace makes two voters propose, each with a side of its own, so that any two majorities
// share only the voters between the sides. The voters between the sides crash in the middle of the
// race. After the restart they must still know the messages they sent, or each side decides on an
// electorate of its own.
func (ne *nemesis) ballotRace(r *rand.Rand) (lasts time.Duration) {
	voters := ne.finalVoters(r)
	n := len(voters)
	if n < 3 {
		return 0
	}
	ttl, version := ne.w.opt.MaxTTL, ne.w.dynamic.newest
	d := 2*ttl + fault.Within(r, ttl)
	side := (n - 1) / 2
	one, other, between := voters[:side], voters[side:2*side], voters[2*side:]
	ne.w.note(nil, "a ballot race of %s and %s around %s", aliases(one), aliases(other), aliases(between))
	ne.cutBetween(one, other, bothWays, d)
	forgets := raceForgets(r.IntN(int(raceForgetsEnd)))
	second := func() { ne.proposesOn(version, other[0], r, d) }
	for _, h := range between {
		f := &pendingFault{host: h, step: stepSends}
		cutOff := false
		ne.slowDisk(h, pickDuration(r, 0, ttl/50, ttl/10, ttl/5), d)
		switch forgets {
		// The voter forgets its second promise, while both proposers wait for their own disks.
		case forgetsPromise:
			f.kind, f.nth = vote.KindPrepared, 1
		// The voter forgets its acceptance, and receives nothing more from the side it accepted.
		case forgetsAcceptance:
			f.kind, cutOff = vote.KindAccepted, true
			if r.IntN(4) == 0 {
				ne.addForAWhile(&pendingFault{host: h, step: stepReceives, kind: vote.KindAccept, inject: func(*host) { h.disk.broken = true }}, d)
				ne.w.faults.lasting(d, func() { h.disk.broken = false; ne.w.order.disturb() })
			}
		default:
			f.step, f.kind = raceSteps[r.IntN(len(raceSteps))], raceMessages[r.IntN(len(raceMessages))]
			f.nth, cutOff = r.IntN(3), r.IntN(2) == 0
		}
		then := func() {}
		if forgets == forgetsAcceptance && h == between[0] {
			then = second
		}
		ne.fallsAt(h, f, then, r)
		if cutOff {
			fall := f.inject
			f.inject = func(h *host) {
				fall(h)
				ne.cutBetween([]*host{h}, one, receivesNothing, d)
			}
		}
	}
	for _, h := range []*host{one[0], other[0]} {
		if forgets == forgetsPromise {
			ne.slowDisk(h, ttl/10+fault.Within(r, ttl/5), d)
		} else if r.IntN(2) == 0 {
			ne.slowDisk(h, fault.Within(r, ttl/5), d)
		}
	}
	ne.proposesFor(one[0], r, d, func(bool) {})
	if forgets != forgetsAcceptance {
		ne.w.At(fault.Within(r, ttl/5), second)
	}
	return d
}

// raceForgets is the state that a voter between the sides may have forgotten after its restart.
type raceForgets uint8

const (
	forgetsPromise raceForgets = iota
	forgetsAcceptance
	forgetsAnything
	raceForgetsEnd
)

// raceSteps and raceMessages are the steps and messages at which a voter between the sides crashes,
// repeated by their weight.
var (
	raceSteps    = [...]step{stepSends, stepSends, stepSends, stepReceives, stepSaves}
	raceMessages = [...]vote.Kind{vote.KindPrepared, vote.KindPrepare, vote.KindAccepted, vote.KindAccept}
)

// fallsAt crashes a host at a step, mostly with the loss of the save under way, and restarts the
// host soon. The process is stopped first, until its messages have been received. The host may also
// lose its directory.
func (ne *nemesis) fallsAt(h *host, b *pendingFault, then func(), r *rand.Rand) {
	b.inject = func(*host) {
		p := h.p
		if ne.w.faults.healed || p == nil {
			return
		}
		ne.w.halt(h, pauseStopped)
		ne.w.At(2*ne.w.opt.Net.Most, func() {
			if h.p != p {
				return
			}
			if ne.w.faults.healed {
				ne.w.wake(h)
				return
			}
			wiped := r.IntN(6) == 0 && ne.w.dynamic.canLoseDisk(h)
			if r.IntN(4) > 0 {
				h.disk.saving = nil // the crash precedes any write to the disk
			}
			ne.w.crash(h, endingAtOnce, nil)
			if wiped {
				ne.w.note(h, "has its directory wiped")
				h.disk = disk{made: h.disk.made}
			}
			h.disk.broken = false
			ne.w.faults.bringBack(h, fault.Within(r, ne.w.opt.MaxTTL/20))
			then()
		})
	}
	ne.addForAWhile(b, 3*ne.w.opt.MaxTTL)
}

// interrupt breaks off a ballot when some voters have accepted its value, lets a second ballot
// succeed, and silences the node that knows of the success. Then the voters of the first ballot
// must find out the decision of the second.
func (ne *nemesis) interrupt(r *rand.Rand) (lasts time.Duration) {
	voters := ne.finalVoters(r)
	if len(voters) < 3 {
		return 0
	}
	d, version := 2*ne.w.opt.MaxTTL+fault.Within(r, ne.w.opt.MaxTTL), ne.w.dynamic.newest
	ne.w.note(nil, "a ballot is to be interrupted: %s", aliases(voters))
	first, second, third := voters[0], voters[1], voters[2]
	if r.IntN(2) == 0 {
		ne.slowDisk(first, fault.Within(r, ne.w.opt.MaxTTL/5), d)
	}
	var heal []func()
	cut := func(h *host, others []*host, way direction) {
		heal = append(heal, ne.cutUntil(h, others, way, d))
	}
	if r.IntN(3) == 0 {
		cut(first, []*host{third}, receivesNothing)
	}
	again := r.IntN(3) == 0 // the first proposer crashes and proposes once more
	trigger := &pendingFault{host: first, step: stepSends, kind: vote.KindAccept}
	if r.IntN(3) == 0 {
		trigger.step, trigger.kind = stepReceives, vote.KindPrepare
	}
	trigger.inject = func(*host) {
		if ne.w.faults.healed {
			return
		}
		if !again {
			cut(first, ne.w.hosts, bothWays)
			ne.proposesOn(version, second, r, d)
			// The first ballot is over, and a newer ballot precedes the second proposer's
			// acceptance.
			if trigger.step == stepReceives {
				ne.proposesOn(version, first, r, d)
			}
			return
		}
		first.disk.saving = nil
		if ne.w.crash(first, endingAtOnce, r) {
			ne.w.faults.bringBack(first, fault.Within(r, ne.w.opt.MaxTTL/20))
		}
		if r.IntN(3) > 0 {
			cut(third, ne.w.hosts, bothWays)
		}
		ne.proposesOn(version, first, r, d)
	}
	ne.addForAWhile(trigger, d)
	ne.addForAWhile(&pendingFault{step: stepKnows, any: true, inject: func(h *host) {
		if ne.w.faults.healed {
			return
		}
		ne.cutUntil(h, ne.w.hosts, bothWays, d)
		for _, f := range heal {
			f()
		}
		next := third
		if h == third || r.IntN(3) == 0 {
			next = first
		}
		if next != h {
			ne.proposesOn(version, next, r, d)
		}
	}}, d)
	ne.proposesFor(first, r, ne.w.opt.MaxTTL, func(bool) {})
	if trigger.step == stepReceives {
		ne.w.At(fault.Within(r, ne.w.opt.MaxTTL/5), func() { ne.proposesFor(second, r, ne.w.opt.MaxTTL, func(bool) {}) })
	}
	return d
}

// finalVoters returns the voters of the newest electorate in random order; none if the electorate
// is joint, or if a voter is down or hasn't stored the electorate.
func (ne *nemesis) finalVoters(r *rand.Rand) []*host {
	e := ne.w.dynamic.decided[ne.w.dynamic.newest]
	var voters []*host
	for _, h := range ne.w.hosts {
		if ne.votesIn(e.Voters, h) && h.p != nil && h.hung == pauseNone && h.disk.state.Electorate.Version == e.Version && h.disk.saving == nil {
			voters = append(voters, h)
		}
	}
	if e.Joint() || len(voters) < len(e.Voters) {
		return nil
	}
	r.Shuffle(len(voters), func(i, j int) { voters[i], voters[j] = voters[j], voters[i] })
	return voters
}

// addForAWhile adds a pending fault for a while, ahead of all other pending faults.
func (ne *nemesis) addForAWhile(b *pendingFault, d time.Duration) {
	ne.pending = slices.Insert(ne.pending, 0, b)
	ne.w.At(d, func() {
		ne.pending = slices.DeleteFunc(ne.pending, func(o *pendingFault) bool { return o == b })
	})
}

// proposesOn makes a node propose again and again, for as long as the node knows no electorate
// newer than the given version.
func (ne *nemesis) proposesOn(version uint64, h *host, r *rand.Rand, left time.Duration) {
	if ne.w.faults.healed || left <= 0 {
		return
	}
	p := h.p
	if p != nil && p.m.Known() != nil && p.m.Known().Version > version {
		return
	}
	if p != nil && h.hung == pauseNone && p.m.Propose(p.read(ne.w.now), ne.someVoters(h, r)) == nil {
		ne.w.settle(p)
	}
	every := ne.w.opt.MaxTTL / 20
	ne.w.At(every, func() { ne.proposesOn(version, h, r, left-every) })
}

// cutBetween cuts some hosts off from others for a while.
func (ne *nemesis) cutBetween(some, others []*host, way direction, d time.Duration) {
	var ways [][2]*host
	for _, h := range some {
		for _, o := range others {
			if o != h {
				ways = way.ways(ways, h, o)
			}
		}
	}
	ne.cutWays(ways, d)
}

// cutUntil cuts a host off from others until heal is called, or for d at most.
func (ne *nemesis) cutUntil(h *host, others []*host, way direction, d time.Duration) (heal func()) {
	var ways [][2]*host
	for _, o := range others {
		if o != h {
			ways = way.ways(ways, h, o)
		}
	}
	ne.w.fig.Partitions++
	for _, way := range ways {
		ne.w.net.setCut(way[0], way[1], 1)
	}
	return ne.w.faults.until(d, func() {
		for _, way := range ways {
			ne.w.net.setCut(way[0], way[1], -1)
		}
	})
}

// slowDisk makes each save of a host take longer for a while.
func (ne *nemesis) slowDisk(h *host, by, d time.Duration) {
	h.slowDisk += by
	ne.w.faults.lasting(d, func() { h.slowDisk -= by })
}

func pickDuration(r *rand.Rand, of ...time.Duration) time.Duration { return of[r.IntN(len(of))] }

// aliases lists hosts for the trace.
func aliases(hosts []*host) []string {
	var names []string
	for _, h := range hosts {
		names = append(names, h.alias)
	}
	return names
}
