package sim

import (
	"math/rand/v2"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// threeVoters are the voters of a final electorate, for ambushes in which each voter has a role.
type threeVoters struct {
	*World
	r       *rand.Rand
	version uint64 // of the voters' electorate
	first   *host
	second  *host // never receives a message from first
	between *host
	lasts   time.Duration
}

// threeVoterAmbushes are the ambushes that need three voters.
var threeVoterAmbushes = [...]func(*threeVoters){
	(*threeVoters).promisesAndDies, (*threeVoters).promisesAndDies,
	(*threeVoters).losesDirectory, (*threeVoters).answersLate, (*threeVoters).numbersAnew,
}

// ambushThree starts one of the ambushes for three or five voters.
func (ne *nemesis) ambushThree(r *rand.Rand) (lasts time.Duration) {
	voters := ne.finalVoters(r)
	if len(voters) == 5 {
		return ne.ambushFive(voters, r)
	}
	if len(voters) != 3 {
		return 0
	}
	d := ne.w.opt.MaxTTL + fault.Within(r, ne.w.opt.MaxTTL)
	t := &threeVoters{ne.w, r, ne.w.dynamic.newest, voters[0], voters[1], voters[2], d}
	ne.w.note(nil, "three are ambushed: %s", aliases(voters))
	threeVoterAmbushes[r.IntN(len(threeVoterAmbushes))](t)
	return d
}

// promisesAndDies makes the voter between two proposers promise to both, and crash before its disk
// has stored the second promise. Both proposers still wait for their own disks. After the restart
// the earlier ballot goes on first, and then the later ballot.
func (t *threeVoters) promisesAndDies() {
	first, second, between := t.first, t.second, t.between
	t.nemesis.cutBetween([]*host{first}, []*host{second}, bothWays, t.lasts)
	thawFirst, thawSecond := t.freezes(first), t.freezes(second)
	t.promisesTwice(func() {
		t.diesUnsaved(between, func() { t.onceLinked([]*host{first, second}, between, thawFirst) })
	})
	t.awaits(&pendingFault{host: between, step: stepSends, kind: vote.KindAccepted}, func() {
		t.nemesis.cutFor(first, t.hosts, sendsNothing, t.lasts) // keeps the decision from the others
		thawSecond()
	})
	t.nemesis.proposesFor(first, t.r, t.opt.MaxTTL, func(bool) {})
}

// losesDirectory makes the voter between two proposers lose its directory as soon as the first
// proposer has decided with its vote, and come back on the second proposer's side.
func (t *threeVoters) losesDirectory() {
	first, second, between := t.first, t.second, t.between
	t.nemesis.cutBetween([]*host{first}, []*host{second}, bothWays, t.lasts)
	t.awaits(t.decides(first), func() {
		t.nemesis.cutFor(first, t.hosts, bothWays, t.lasts)
		if !t.dynamic.canLoseDisk(between) {
			return
		}
		t.crash(between, endingAtOnce, nil)
		t.note(between, "has its directory wiped")
		between.disk = disk{made: between.disk.made}
		t.faults.bringBack(between, fault.Within(t.r, t.opt.MaxTTL/20))
		t.nemesis.proposesOn(t.version, second, t.r, t.lasts)
	})
	t.nemesis.proposesFor(first, t.r, t.opt.MaxTTL, func(bool) {})
}

// answersLate holds up the first promise to a proposer until another proposer's ballot has been
// decided and the first proposer has begun a new ballot.
func (t *threeVoters) answersLate() {
	first, second, between := t.first, t.second, t.between
	t.nemesis.cutBetween([]*host{first}, []*host{second}, sendsNothing, t.lasts)
	heal := func() {}
	t.awaits(&pendingFault{host: between, step: stepSends, kind: vote.KindPrepared}, func() {
		heal = t.nemesis.cutUntil(between, []*host{first}, sendsNothing, t.lasts)
		t.nemesis.proposesOn(t.version, second, t.r, t.opt.MaxTTL)
	})
	bySecond := func() bool { return t.isOf(second) }
	t.awaits(&pendingFault{host: first, step: stepReceives, kind: vote.KindPrepare, only: bySecond}, func() {
		t.nemesis.cutBetween([]*host{second}, []*host{first}, sendsNothing, t.lasts)
	})
	t.awaits(t.decides(second), func() {
		t.nemesis.cutFor(second, t.hosts, bothWays, t.lasts)
		t.awaits(&pendingFault{host: first, step: stepSaved}, func() { heal() })
		t.nemesis.proposesFor(first, t.r, t.opt.MaxTTL, func(bool) {})
	})
	t.nemesis.proposesFor(first, t.r, t.opt.MaxTTL, func(bool) {})
}

// numbersAnew makes a proposer crash and propose once more, in an incarnation that has forgotten
// the number of its ballot. One of the other voters has accepted the value of the first ballot, the
// other voter the value of the second.
func (t *threeVoters) numbersAnew() {
	first, second, between := t.first, t.second, t.between
	restart := func() {
		first.disk.saving, first.disk.frozen, first.disk.waits = nil, false, nil
		t.crash(first, endingAtOnce, t.r)
		t.faults.bringBack(first, t.opt.MaxTTL/50)
	}
	restart()
	t.onceLinked([]*host{first}, second, func() {
		t.onceLinked([]*host{first}, between, func() {
			t.freezes(first)
			t.nemesis.proposesFor(first, t.r, t.opt.MaxTTL/2, func(bool) {})
		})
	})
	heal := func() {}
	t.awaits(&pendingFault{host: first, step: stepSends, kind: vote.KindAccept}, func() {
		heal = t.nemesis.cutUntil(first, []*host{between}, sendsNothing, t.lasts)
	})
	t.awaits(&pendingFault{host: second, step: stepSends, kind: vote.KindAccepted}, func() {
		healSecond := t.nemesis.cutUntil(second, t.hosts, bothWays, t.lasts)
		restart()
		heal()
		t.onceLinked([]*host{first}, between, func() {
			t.nemesis.proposesOn(t.version, first, t.r, t.opt.MaxTTL)
		})
		t.awaits(t.decides(first), func() {
			t.nemesis.cutFor(first, t.hosts, bothWays, t.lasts)
			t.nemesis.slowDisk(between, t.opt.MaxTTL/10, t.lasts)
			healSecond()
			t.nemesis.proposesOn(t.version, second, t.r, t.opt.MaxTTL)
		})
	})
}

// awaits calls then as soon as the step of b is taken.
func (t *threeVoters) awaits(b *pendingFault, then func()) {
	b.inject = func(*host) {
		if !t.faults.healed {
			then()
		}
	}
	t.nemesis.addForAWhile(b, t.lasts)
}

// decides is the step in which a host learns of the next electorate, as opposed to its own
// electorate at a start.
func (t *threeVoters) decides(h *host) *pendingFault {
	newer := func() bool { return h.p.m.Known() != nil && h.p.m.Known().Version > t.version }
	return &pendingFault{host: h, step: stepKnows, any: true, only: newer}
}

// isOf reports whether the ballot just received belongs to a host's process.
func (t *threeVoters) isOf(h *host) bool {
	return h.p != nil && t.net.received.Consensus != nil && t.net.received.Consensus.Ballot.By == h.p.id.Incarnation
}

// freezes freezes a host's disk until thaw is called, or for three quarters of a maximum TTL.
func (t *threeVoters) freezes(h *host) (thaw func()) {
	t.dynamic.FreezeDisk(h.alias)
	return t.faults.until(t.opt.MaxTTL*3/4, func() { t.dynamic.ThawDisk(h.alias) })
}

// diesUnsaved crashes a host once its messages have been received, with the loss of the save under
// way.
func (t *threeVoters) diesUnsaved(h *host, then func()) {
	p := h.p
	if p == nil || !t.halt(h, pauseStopped) {
		return
	}
	t.At(2*t.opt.Net.Most, func() {
		if h.p != p {
			return
		}
		if t.faults.healed {
			t.wake(h)
			return
		}
		h.disk.saving, h.disk.broken, h.disk.frozen, h.disk.waits = nil, false, false, nil
		t.crash(h, endingAtOnce, nil)
		t.faults.bringBack(h, t.opt.MaxTTL/50)
		then()
	})
}

// onceLinked calls then as soon as some hosts have connections to another host, which may still be
// down.
func (t *threeVoters) onceLinked(some []*host, to *host, then func()) {
	left := t.opt.MaxTTL
	every := t.opt.MaxTTL / 100
	var look func()
	look = func() {
		if left -= every; t.faults.healed || left < 0 {
			return
		}
		for _, h := range some {
			if to.p == nil || h.p == nil {
				t.At(every, look)
				return
			}
			if l := h.p.dials[to.i].l; l == nil || l.state != linkUp || l.ends[1].p != to.p {
				t.At(every, look)
				return
			}
		}
		then()
	}
	look()
}

// FreezeDisk makes new saves on a node's disk neither end nor fail, until ThawDisk. A save under
// way isn't affected.
func (d *dynamicWorld) FreezeDisk(node string) { d.w.host(node).disk.frozen = true }

// ThawDisk ends FreezeDisk, and completes the waiting saves.
func (d *dynamicWorld) ThawDisk(node string) {
	disk := &d.w.host(node).disk
	for _, saved := range disk.waits {
		saved.at = d.w.now + 1
		d.w.push(saved)
	}
	disk.frozen, disk.waits = false, nil
}
