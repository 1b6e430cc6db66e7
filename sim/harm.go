package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// faults is the part of the world that injects faults.
type faults struct {
	calm   bool // the faults are over
	acts   []Act
	undo   []undo
	undoN  uint64
	wanted map[*host]bool       // hosts to be restarted
	misled map[[2]*host]*misled // a node and a voter
}

// undo ends a lasting fault.
type undo struct {
	n uint64
	f func()
}

func (w *World) setUpFaults() {
	w.misled = make(map[[2]*host]*misled)
	given := slices.Clone(w.opt.Acts)
	slices.SortStableFunc(given, func(a, b Act) int { return cmp.Compare(a.At, b.At) })
	total := 0
	for _, n := range w.opt.Faults.Weights {
		total += n
	}
	switch draws := w.opt.Acts == nil; {
	case draws && w.opt.Faults.Every > 0 && total > 0:
		w.nextAct(func(n int, before time.Duration) (Act, bool) { return w.opt.drawAct(n, before), true })
	case !draws:
		w.nextAct(func(n int, _ time.Duration) (Act, bool) {
			if n == len(given) {
				return Act{}, false
			}
			return given[n], true
		})
	}
}

// nextAct schedules the next fault, which then schedules the fault after it.
func (w *World) nextAct(next func(n int, before time.Duration) (Act, bool)) {
	before := time.Duration(0)
	if n := len(w.acts); n > 0 {
		before = w.acts[n-1].At
	}
	a, ok := next(len(w.acts), before)
	if !ok {
		return
	}
	w.acts = append(w.acts, a)
	w.At(a.At-w.Now(), func() {
		if !w.calm {
			w.Do(a)
			w.nextAct(next)
		}
	})
}

// Do injects one fault now, whatever time the act names. Its random choices depend on the act's
// Luck. Figures.Fired counts the act if it had an effect.
func (w *World) Do(a Act) {
	h, r := w.hostOf(a.Hosts), rand.New(rand.NewPCG(a.Luck, 0))
	fired := false
	did := func(harm bool) { // some faults act in parts, and count once
		if harm && !fired {
			fired = true
			w.fig.Fired[a.Fault]++
			w.firedUnder(a.Fault)
			w.mix(uint64(a.Fault))
		}
	}
	switch a.Fault {
	case FaultCrash:
		if h != nil && w.crash(h, endingMixed, r) {
			w.bringBack(h, a.For)
			did(true)
		}
	case FaultCrashAll: // the processes come back at once or in turn
		for _, h := range w.hostsOf(a.Hosts) {
			if w.crash(h, endingMixed, r) {
				w.bringBack(h, within(r, max(a.For, 10*time.Millisecond)))
				did(true)
			}
		}
	case FaultRolling:
		for i, h := range w.hostsOf(a.Hosts) {
			w.At(time.Duration(i)*a.By, func() {
				if !w.calm && w.crash(h, endingAtOnce, r) {
					w.bringBack(h, within(r, a.By/4))
					did(true)
				}
			})
		}
	case FaultStop, FaultSuspend, FaultUnseen:
		for _, h := range w.hostsOf(a.Hosts) {
			did(w.haltFor(h, [...]pause{FaultStop: pauseStopped, FaultSuspend: pauseAsleep, FaultUnseen: pauseUnseen}[a.Fault], a.For))
		}
	case FaultFlap:
		did(w.flap(&a))
	case FaultFull:
		if l := w.linkBetween(a.Hosts, a.Far); l != nil {
			w.chokeFor(l, uint8(bit(a.Back)), a.For, r, did)
		}
	case FaultRefuse, FaultGossip:
		if far := w.hostOf(a.Far); h != nil && far != nil {
			w.misleadFor(h, far, &a, r, did)
		}
	case FaultAmbush:
		if h != nil && h.ambush == nil {
			w.lieInWait(h, a.For, r, did)
		}
	case FaultSplit, FaultOneWay, FaultBridge, FaultIsolate, FaultLink, FaultRing:
		did(w.partition(&a, r))
	case FaultBreak:
		if l := w.linkBetween(a.Hosts, a.Far); l != nil {
			w.breakLink(l, r)
			did(true)
		}
	case FaultStall:
		if l := w.linkBetween(a.Hosts, a.Far); l != nil {
			side := uint8(bit(a.Back))
			w.note(nil, "%v stalls", l)
			w.setStall(l, side, 1)
			w.lasting(a.For, func() { w.setStall(l, side, -1) })
			did(true)
		}
	case FaultSlow:
		if far := w.hostOf(a.Far); h != nil && far != nil {
			w.setSlow(h, far, a.By)
			w.lasting(a.For, func() { w.setSlow(h, far, -a.By) })
			did(a.By > 0)
		}
	case FaultWall:
		if h != nil && a.By != 0 {
			w.stepWall(h, a.By)
			did(true)
		}
	case FaultTwin:
		did(w.twinFault(h, a.For, r))
	case FaultWipe, FaultGone, FaultLeave, FaultDisk, FaultAccuse, FaultProposal, FaultStrike,
		FaultGray:
		if h != nil && w.opt.Following != nil {
			w.harmFollowing(h, &a, r, did)
		}
	case FaultRate, FaultBeyond:
		if h != nil && h.clock.ppm != a.PPM {
			w.retune(h, a.PPM)
			did(true)
		}
	}
}

// find returns the host of a name, or nil. Of several duplicates it returns the newest, since the
// older ones are over.
func (w *World) find(name string) *host {
	for _, h := range slices.Backward(w.hosts) {
		if h.alias == name {
			return h
		}
	}
	return nil
}

// hostOf returns the host of the first name, or nil if there is none.
func (w *World) hostOf(names []string) *host {
	if len(names) == 0 {
		return nil
	}
	return w.find(names[0])
}

// hostsOf returns the existing hosts among the names.
func (w *World) hostsOf(names []string) []*host {
	var hosts []*host
	for _, name := range names {
		if h := w.find(name); h != nil {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// linkBetween returns the connection that a host has dialed to a voter, or is dialing with the
// voter's knowledge; nil if there is none.
func (w *World) linkBetween(from, voter []string) *link {
	a, b := w.hostOf(from), w.hostOf(voter)
	for _, l := range w.links {
		if l.ends[0].host == a && l.ends[1].host == b && l.fate == fateStands {
			return l
		}
	}
	return nil
}

// lasting calls end after a while, or when the faults are over.
func (w *World) lasting(d time.Duration, end func()) { w.until(d, end) }

// until is like lasting, and returns a function to call end earlier.
func (w *World) until(d time.Duration, end func()) (now func()) {
	w.undoN++
	n := w.undoN
	w.undo = append(w.undo, undo{n, end})
	now = func() {
		for i, u := range w.undo {
			if u.n == n {
				w.undo = append(w.undo[:i:i], w.undo[i+1:]...)
				u.f()
				return
			}
		}
	}
	w.At(d, now)
	return now
}

// haltFor keeps a process from running for a while.
func (w *World) haltFor(h *host, how pause, d time.Duration) bool {
	if h == nil || !w.halt(h, how) {
		return false
	}
	p := h.p
	w.lasting(d, func() {
		if h.p == p {
			w.wake(h)
		}
	})
	return true
}

// twinsMost bounds the duplicate processes of a run: each is an additional host.
const twinsMost = 8

// twinFault starts a second process with the name of a process that seems dead. Later the first
// process goes on, and later still either the first or the second ends for good.
func (w *World) twinFault(h *host, d time.Duration, r *rand.Rand) bool {
	if h == nil || h.voter || h.twinned || len(w.hosts) >= w.opt.Voters+w.opt.Clients+twinsMost || !w.halt(h, pauseStopped) {
		return false
	}
	first, t := h.p, w.twin(h)
	h.twinned, t.twinned = true, true
	end := func() {
		victim := []*host{h, t}[r.IntN(2)]
		h.twinned, t.twinned, victim.retired = false, false, true
		w.crash(victim, endingMixed, r)
	}
	w.lasting(d, func() {
		if h.p == first {
			w.wake(h)
		}
		if w.calm {
			end()
		} else {
			w.lasting(span(r, w.opt.MaxTTL), end)
		}
	})
	return true
}

// bringBack schedules a new incarnation.
func (w *World) bringBack(h *host, d time.Duration) {
	if w.wanted[h] {
		return
	}
	w.wanted[h] = true
	w.At(d, func() {
		delete(w.wanted, h)
		if h.p == nil && !h.retired {
			w.start(h)
			w.herald(h)
		}
	})
}

// ways returns the directed links cut by an act.
func (w *World) ways(a *Act) [][2]*host {
	var ways [][2]*host
	if a.Fault == FaultRing {
		ring := w.hostsOf(a.Hosts)
		for i, from := range ring {
			for j, to := range ring {
				if apart := (i - j + len(ring)) % len(ring); apart > 1 && apart < len(ring)-1 {
					ways = append(ways, [2]*host{from, to})
				}
			}
		}
		return ways
	}
	for _, from := range w.hostsOf(a.Hosts) {
		for _, to := range w.hostsOf(a.Far) {
			ways = append(ways, [2]*host{from, to})
			if !a.OneWay {
				ways = append(ways, [2]*host{to, from})
			}
		}
	}
	return ways
}

// partition cuts links between hosts for a while. Connections across the cut may break, at once or
// when the partition heals.
func (w *World) partition(a *Act, r *rand.Rand) bool {
	ways := w.ways(a)
	if len(ways) == 0 {
		return false
	}
	w.fig.Partitions++
	for _, way := range ways {
		w.setCut(way[0], way[1], 1)
	}
	if w.trace != nil {
		names := ""
		for _, way := range ways {
			names += fmt.Sprintf(" %s>%s", way[0].name, way[1].name)
		}
		w.note(nil, "%v:%s", a.Fault, names)
	}
	if r.IntN(3) == 0 {
		w.breakAcross(ways, r)
	}
	w.lasting(a.For, func() {
		if r.IntN(3) == 0 {
			w.breakAcross(ways, r)
		}
		for _, way := range ways {
			w.setCut(way[0], way[1], -1)
		}
		w.note(nil, "%v is over", a.Fault)
	})
	return true
}

func (w *World) breakAcross(ways [][2]*host, r *rand.Rand) {
	for i := len(w.links) - 1; i >= 0; i-- {
		l := w.links[i]
		for _, way := range ways {
			a, b := l.ends[0].host, l.ends[1].host
			if l.fate == fateStands && (a == way[0] && b == way[1] || a == way[1] && b == way[0]) {
				w.breakLink(l, r)
			}
		}
	}
}

// Heal ends all faults: all processes run, and all hosts reach each other.
func (w *World) Heal() {
	w.calm = true
	w.note(nil, "the faults are over")
	for len(w.undo) > 0 {
		u := w.undo[0]
		w.undo = w.undo[1:]
		u.f()
	}
	for i := range w.hosts {
		for j := range w.hosts {
			w.slow[i][j] = 0
			if n := w.cut[i][j]; n > 0 {
				w.setCut(w.hosts[i], w.hosts[j], -n)
			}
		}
	}
	clear(w.gray)
	for _, h := range w.hosts {
		h.ambush = nil
		w.wake(h)
		if h.p == nil && !h.retired {
			w.start(h)
			w.herald(h)
		}
	}
}

// voterAt returns the host reachable under a voter's name.
func (w *World) voterAt(name vote.NodeID) *host { return w.hosts[w.route[w.voterPlace(name)]] }
