package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Ambushes of several steps, each aimed at a single rule of an election. With independent strikes
// the steps hardly ever come in the harmful order. Each step by itself is a crash, a cut, a slow
// disk or a proposal, and so within the assumptions.

// ambushElection starts an ambush as soon as the newest electorate is final and all its voters run,
// unless an ambush is under way or the wait takes too long.
func (w *World) ambushElection(r *rand.Rand, left time.Duration, did func(bool)) {
	if w.calm || w.now < w.ambushedUntil {
		return
	}
	ambush := w.duel
	switch r.IntN(6) {
	case 0, 1:
		ambush = w.interrupt
	case 2, 3, 4:
		ambush = w.ambushTrio
	}
	if d := ambush(r); d > 0 {
		w.ambushedUntil = w.now.add(d)
		did(true)
		return
	}
	if again := w.opt.MaxTTL / 50; left > again {
		w.At(again, func() { w.ambushElection(r, left-again, did) })
	}
}

// duel makes two voters propose, each with a side of its own, so that any two majorities share only
// the voters between the sides. The voters between the sides crash in the middle of the duel. After
// the restart they must still know the messages they sent, or each side decides on an electorate of
// its own.
func (w *World) duel(r *rand.Rand) (lasts time.Duration) {
	voters := w.finalVoters(r)
	n := len(voters)
	if n < 3 {
		return 0
	}
	ttl, version := w.opt.MaxTTL, w.newest
	d := 2*ttl + within(r, ttl)
	side := (n - 1) / 2
	one, other, between := voters[:side], voters[side:2*side], voters[2*side:]
	w.note(nil, "a duel of %s and %s around %s", aliases(one), aliases(other), aliases(between))
	w.cutBetween(one, other, bothWays, d)
	forgets := duelForgets(r.IntN(int(duelsEnd)))
	second := func() { w.proposesOn(version, other[0], r, d) }
	for _, h := range between {
		f := &lurk{host: h, step: stepSays}
		deaf := false
		w.slowDisk(h, pickDuration(r, 0, ttl/50, ttl/10, ttl/5), d)
		switch forgets {
		// The voter forgets its second promise, while both proposers wait for their own disks.
		case forgetsPromise:
			f.word, f.nth = vote.KindPrepared, 1
		// The voter forgets its acceptance, and receives nothing more from the side it accepted.
		case forgetsAcceptance:
			f.word, deaf = vote.KindAccepted, true
			if r.IntN(4) == 0 {
				w.await(&lurk{host: h, step: stepHears, word: vote.KindAccept, strike: func(*host) { h.disk.broken = true }}, d)
				w.lasting(d, func() { h.disk.broken = false; w.disturb() })
			}
		default:
			f.step, f.word = duelSteps[r.IntN(len(duelSteps))], duelWords[r.IntN(len(duelWords))]
			f.nth, deaf = r.IntN(3), r.IntN(2) == 0
		}
		then := func() {}
		if forgets == forgetsAcceptance && h == between[0] {
			then = second
		}
		w.fallsAt(h, f, then, r)
		if deaf {
			fall := f.strike
			f.strike = func(h *host) {
				fall(h)
				w.cutBetween([]*host{h}, one, hearsNothing, d)
			}
		}
	}
	for _, h := range []*host{one[0], other[0]} {
		if forgets == forgetsPromise {
			w.slowDisk(h, ttl/10+within(r, ttl/5), d)
		} else if r.IntN(2) == 0 {
			w.slowDisk(h, within(r, ttl/5), d)
		}
	}
	w.proposesFor(one[0], r, d, func(bool) {})
	if forgets != forgetsAcceptance {
		w.At(within(r, ttl/5), second)
	}
	return d
}

// duelForgets is the state that a voter between the sides may have forgotten after its restart.
type duelForgets uint8

const (
	forgetsPromise duelForgets = iota
	forgetsAcceptance
	forgetsAnything
	duelsEnd
)

// duelSteps and duelWords are the steps and messages at which a voter between the sides crashes,
// repeated by their weight.
var (
	duelSteps = [...]step{stepSays, stepSays, stepSays, stepHears, stepSaves}
	duelWords = [...]vote.Kind{vote.KindPrepared, vote.KindPrepare, vote.KindAccepted, vote.KindAccept}
)

// fallsAt crashes a host at a step, mostly with the loss of the save under way, and restarts the
// host soon. The process is stopped first, until its messages have been received. The host may also
// lose its directory.
func (w *World) fallsAt(h *host, b *lurk, then func(), r *rand.Rand) {
	b.strike = func(*host) {
		p := h.p
		if w.calm || p == nil {
			return
		}
		w.halt(h, pauseStopped)
		w.At(2*w.opt.Net.Most, func() {
			if h.p != p {
				return
			}
			if w.calm {
				w.wake(h)
				return
			}
			wiped := r.IntN(6) == 0 && w.spares(h)
			if r.IntN(4) > 0 {
				h.disk.saving = nil // the crash precedes any write to the disk
			}
			w.crash(h, endingAtOnce, nil)
			if wiped {
				w.note(h, "has its directory wiped")
				h.disk = disk{made: h.disk.made}
			}
			h.disk.broken = false
			w.bringBack(h, within(r, w.opt.MaxTTL/20))
			then()
		})
	}
	w.await(b, 3*w.opt.MaxTTL)
}

// interrupt breaks off a ballot when some voters have accepted its value, lets a second ballot
// succeed, and silences the node that knows of the success. Then the voters of the first ballot
// must find out the decision of the second.
func (w *World) interrupt(r *rand.Rand) (lasts time.Duration) {
	voters := w.finalVoters(r)
	if len(voters) < 3 {
		return 0
	}
	d, version := 2*w.opt.MaxTTL+within(r, w.opt.MaxTTL), w.newest
	w.note(nil, "an attempt is to be interrupted: %s", aliases(voters))
	first, second, third := voters[0], voters[1], voters[2]
	if r.IntN(2) == 0 {
		w.slowDisk(first, within(r, w.opt.MaxTTL/5), d)
	}
	var heal []func()
	cut := func(h *host, others []*host, way direction) {
		heal = append(heal, w.cutUntil(h, others, way, d))
	}
	if r.IntN(3) == 0 {
		cut(first, []*host{third}, hearsNothing)
	}
	again := r.IntN(3) == 0 // the first proposer crashes and proposes once more
	trigger := &lurk{host: first, step: stepSays, word: vote.KindAccept}
	if r.IntN(3) == 0 {
		trigger.step, trigger.word = stepHears, vote.KindPrepare
	}
	trigger.strike = func(*host) {
		if w.calm {
			return
		}
		if !again {
			cut(first, w.hosts, bothWays)
			w.proposesOn(version, second, r, d)
			// The first ballot is over, and a newer ballot precedes the second proposer's
			// acceptance.
			if trigger.step == stepHears {
				w.proposesOn(version, first, r, d)
			}
			return
		}
		first.disk.saving = nil
		if w.crash(first, endingAtOnce, r) {
			w.bringBack(first, within(r, w.opt.MaxTTL/20))
		}
		if r.IntN(3) > 0 {
			cut(third, w.hosts, bothWays)
		}
		w.proposesOn(version, first, r, d)
	}
	w.await(trigger, d)
	w.await(&lurk{step: stepKnows, any: true, strike: func(h *host) {
		if w.calm {
			return
		}
		w.cutUntil(h, w.hosts, bothWays, d)
		for _, f := range heal {
			f()
		}
		next := third
		if h == third || r.IntN(3) == 0 {
			next = first
		}
		if next != h {
			w.proposesOn(version, next, r, d)
		}
	}}, d)
	w.proposesFor(first, r, w.opt.MaxTTL, func(bool) {})
	if trigger.step == stepHears {
		w.At(within(r, w.opt.MaxTTL/5), func() { w.proposesFor(second, r, w.opt.MaxTTL, func(bool) {}) })
	}
	return d
}

// finalVoters returns the voters of the newest electorate in random order; none if the electorate
// is joint, or if a voter is down or hasn't stored the electorate.
func (w *World) finalVoters(r *rand.Rand) []*host {
	e := w.decided[w.newest]
	var voters []*host
	for _, h := range w.hosts {
		if w.votesIn(e.Voters, h) && h.p != nil && h.hung == pauseNone && h.disk.state.Electorate.Version == e.Version && h.disk.saving == nil {
			voters = append(voters, h)
		}
	}
	if e.Joint() || len(voters) < len(e.Voters) {
		return nil
	}
	r.Shuffle(len(voters), func(i, j int) { voters[i], voters[j] = voters[j], voters[i] })
	return voters
}

// await registers a pending strike for a while, ahead of all other pending strikes.
func (w *World) await(b *lurk, d time.Duration) {
	w.lurks = slices.Insert(w.lurks, 0, b)
	w.At(d, func() {
		w.lurks = slices.DeleteFunc(w.lurks, func(o *lurk) bool { return o == b })
	})
}

// proposesOn makes a node propose again and again, for as long as the node knows no electorate
// newer than the given version.
func (w *World) proposesOn(version uint64, h *host, r *rand.Rand, left time.Duration) {
	if w.calm || left <= 0 {
		return
	}
	p := h.p
	if p != nil && p.m.Known().Version > version {
		return
	}
	if p != nil && h.hung == pauseNone && p.m.Propose(p.read(w.now), w.someVoters(h, r)) == nil {
		w.settle(p)
	}
	every := w.opt.MaxTTL / 20
	w.At(every, func() { w.proposesOn(version, h, r, left-every) })
}

// cutBetween cuts some hosts off from others for a while.
func (w *World) cutBetween(some, others []*host, way direction, d time.Duration) {
	var ways [][2]*host
	for _, h := range some {
		for _, o := range others {
			if o != h {
				ways = way.ways(ways, h, o)
			}
		}
	}
	w.cutWays(ways, d)
}

// cutUntil cuts a host off from others until heal is called, or for d at most.
func (w *World) cutUntil(h *host, others []*host, way direction, d time.Duration) (heal func()) {
	var ways [][2]*host
	for _, o := range others {
		if o != h {
			ways = way.ways(ways, h, o)
		}
	}
	w.fig.Partitions++
	for _, way := range ways {
		w.setCut(way[0], way[1], 1)
	}
	return w.until(d, func() {
		for _, way := range ways {
			w.setCut(way[0], way[1], -1)
		}
	})
}

// slowDisk makes each save of a host take longer for a while.
func (w *World) slowDisk(h *host, by, d time.Duration) {
	h.slowDisk += by
	w.lasting(d, func() { h.slowDisk -= by })
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
