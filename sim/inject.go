package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// faults is the part of the world that injects faults.
type faults struct {
	w         *World
	healed    bool // the faults are over
	acts      []Act
	undo      []undo
	undoN     uint64
	wanted    map[*host]bool          // hosts to be restarted
	misdialed map[[2]*host]*misdialed // a node and a voter
}

// undo ends a lasting fault.
type undo struct {
	n uint64
	f func()
}

func (ft *faults) setUpFaults() {
	ft.misdialed = make(map[[2]*host]*misdialed)
	given := slices.Clone(ft.w.opt.Acts)
	slices.SortStableFunc(given, func(a, b Act) int { return cmp.Compare(a.At, b.At) })
	total := 0
	for _, n := range ft.w.opt.Faults.Weights {
		total += n
	}
	switch draws := ft.w.opt.Acts == nil; {
	case draws && ft.w.opt.Faults.Every > 0 && total > 0:
		mesh := fault.Mesh{Names: ft.w.opt.NodeNames(), Voters: ft.w.opt.Voters, MaxTTL: ft.w.opt.MaxTTL}
		ft.nextAct(func(n int, before time.Duration) (Act, bool) {
			return ft.w.opt.Faults.Draw(ft.w.opt.Seed, n, before, mesh), true
		})
	case !draws:
		ft.nextAct(func(n int, _ time.Duration) (Act, bool) {
			if n == len(given) {
				return Act{}, false
			}
			return given[n], true
		})
	}
}

// nextAct schedules the next fault, which then schedules the fault after it.
func (ft *faults) nextAct(next func(n int, before time.Duration) (Act, bool)) {
	before := time.Duration(0)
	if n := len(ft.acts); n > 0 {
		before = ft.acts[n-1].At
	}
	a, ok := next(len(ft.acts), before)
	if !ok {
		return
	}
	ft.acts = append(ft.acts, a)
	ft.w.At(a.At-ft.w.Now(), func() {
		if !ft.healed {
			ft.Do(a)
			ft.nextAct(next)
		}
	})
}

// Do injects one fault now, whatever time the act names. Its random choices depend on the act's
// Seed. Figures.Fired counts the act if it had an effect.
func (ft *faults) Do(a Act) {
	h, r := ft.hostOf(a.Hosts), rand.New(rand.NewPCG(a.Seed, 0))
	fired := false
	did := func(effective bool) { // some faults act in parts, and count once
		if effective && !fired {
			fired = true
			ft.w.fig.Fired[a.Fault]++
			ft.w.marks.firedUnder(a.Fault)
			ft.w.mix(uint64(a.Fault))
		}
	}
	switch a.Fault {
	case fault.Crash:
		if h != nil && ft.w.crash(h, endingMixed, r) {
			ft.bringBack(h, a.For)
			did(true)
		}
	case fault.CrashAll: // the processes come back at once or in turn
		for _, h := range ft.hostsOf(a.Hosts) {
			if ft.w.crash(h, endingMixed, r) {
				ft.bringBack(h, fault.Within(r, max(a.For, 10*time.Millisecond)))
				did(true)
			}
		}
	case fault.Rolling:
		for i, h := range ft.hostsOf(a.Hosts) {
			ft.w.At(time.Duration(i)*a.By, func() {
				if !ft.healed && ft.w.crash(h, endingAtOnce, r) {
					ft.bringBack(h, fault.Within(r, a.By/4))
					did(true)
				}
			})
		}
	case fault.Stop, fault.Suspend, fault.Unseen:
		for _, h := range ft.hostsOf(a.Hosts) {
			did(ft.haltFor(h, [...]pause{fault.Stop: pauseStopped, fault.Suspend: pauseAsleep, fault.Unseen: pauseUnseen}[a.Fault], a.For))
		}
	case fault.Flap:
		did(ft.flap(&a))
	case fault.Full:
		if l := ft.linkBetween(a.Hosts, a.Far); l != nil {
			ft.chokeFor(l, uint8(bit(a.Back)), a.For, r, did)
		}
	case fault.Refuse, fault.Gossip:
		if far := ft.hostOf(a.Far); h != nil && far != nil {
			ft.misdialFor(h, far, &a, r, did)
		}
	case fault.Ambush:
		if h != nil && h.ambush == nil {
			ft.setAmbush(h, a.For, r, did)
		}
	case fault.Split, fault.OneWay, fault.Bridge, fault.Isolate, fault.Link, fault.Ring:
		did(ft.partition(&a, r))
	case fault.Break:
		if l := ft.linkBetween(a.Hosts, a.Far); l != nil {
			ft.w.net.breakLink(l, r)
			did(true)
		}
	case fault.Stall:
		if l := ft.linkBetween(a.Hosts, a.Far); l != nil {
			side := uint8(bit(a.Back))
			ft.w.note(nil, "%v stalls", l)
			ft.w.net.setStall(l, side, 1)
			ft.lasting(a.For, func() { ft.w.net.setStall(l, side, -1) })
			did(true)
		}
	case fault.Slow:
		if far := ft.hostOf(a.Far); h != nil && far != nil {
			ft.w.net.setSlow(h, far, a.By)
			ft.lasting(a.For, func() { ft.w.net.setSlow(h, far, -a.By) })
			did(a.By > 0)
		}
	case fault.Wall:
		if h != nil && a.By != 0 {
			ft.w.stepWall(h, a.By)
			did(true)
		}
	case fault.Duplicate:
		did(ft.duplicateFault(h, a.For, r))
	case fault.Wipe, fault.Gone, fault.Leave, fault.Disk, fault.Accuse, fault.Proposal, fault.Targeted,
		fault.Gray:
		if h != nil && ft.w.opt.Dynamic != nil {
			ft.w.nemesis.injectDynamic(h, &a, r, did)
		}
	case fault.Begin, fault.End, fault.Rollout, fault.Apart, fault.Zone:
		if h != nil && ft.w.opt.ByCount != nil {
			ft.w.population.injectInPopulation(h, &a, r, did)
		}
	case fault.Misconfigure:
		if h != nil && ft.w.opt.ByCount != nil {
			did(ft.w.misconfigured.misconfigure(h, a.For, r))
		}
	case fault.Register:
		if h != nil && ft.w.opt.ByCount != nil {
			ft.w.registry.inject(h, &a, r, did)
		}
	case fault.Rate, fault.Beyond:
		if h != nil && h.clock.ppm != a.PPM {
			ft.w.retune(h, a.PPM)
			did(true)
		}
	}
}

// find returns the host of a name, or nil. Of several duplicates it returns the newest, since the
// older ones are over.
func (ft *faults) find(name string) *host {
	for _, h := range slices.Backward(ft.w.hosts) {
		if h.alias == name {
			return h
		}
	}
	return nil
}

// hostOf returns the host of the first name, or nil if there is none.
func (ft *faults) hostOf(names []string) *host {
	if len(names) == 0 {
		return nil
	}
	return ft.find(names[0])
}

// hostsOf returns the existing hosts among the names.
func (ft *faults) hostsOf(names []string) []*host {
	var hosts []*host
	for _, name := range names {
		if h := ft.find(name); h != nil {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// linkBetween returns the connection that a host has dialed to a voter, or is dialing with the
// voter's knowledge; nil if there is none.
func (ft *faults) linkBetween(from, voter []string) *link {
	a, b := ft.hostOf(from), ft.hostOf(voter)
	for _, l := range ft.w.net.links {
		if l.ends[0].host == a && l.ends[1].host == b && l.delivery == delivers {
			return l
		}
	}
	return nil
}

// lasting calls end after a while, or when the faults are over.
func (ft *faults) lasting(d time.Duration, end func()) { ft.until(d, end) }

// until is like lasting, and returns a function to call end earlier.
func (ft *faults) until(d time.Duration, end func()) (now func()) {
	ft.undoN++
	n := ft.undoN
	ft.undo = append(ft.undo, undo{n, end})
	now = func() {
		for i, u := range ft.undo {
			if u.n == n {
				ft.undo = append(ft.undo[:i:i], ft.undo[i+1:]...)
				u.f()
				return
			}
		}
	}
	ft.w.At(d, now)
	return now
}

// haltFor keeps a process from running for a while.
func (ft *faults) haltFor(h *host, how pause, d time.Duration) bool {
	if h == nil || !ft.w.halt(h, how) {
		return false
	}
	p := h.p
	ft.lasting(d, func() {
		if h.p == p {
			ft.w.wake(h)
		}
	})
	return true
}

// duplicatesMost bounds the duplicate processes of a run: each is an additional host.
const duplicatesMost = 8

// duplicateFault starts a second process with the name of a process that seems dead. Later the
// first process goes on, and later still either the first or the second ends for good.
func (ft *faults) duplicateFault(h *host, d time.Duration, r *rand.Rand) bool {
	if h == nil || h.voter || h.duplicated || len(ft.w.hosts) >= ft.w.opt.Voters+ft.w.opt.Clients+duplicatesMost || !ft.w.halt(h, pauseStopped) {
		return false
	}
	first, t := h.p, ft.w.Script.addDuplicate(h)
	h.duplicated, t.duplicated = true, true
	end := func() {
		victim := []*host{h, t}[r.IntN(2)]
		h.duplicated, t.duplicated, victim.retired = false, false, true
		ft.w.crash(victim, endingMixed, r)
	}
	ft.lasting(d, func() {
		if h.p == first {
			ft.w.wake(h)
		}
		if ft.healed {
			end()
		} else {
			ft.lasting(fault.Span(r, ft.w.opt.MaxTTL), end)
		}
	})
	return true
}

// bringBack schedules a new incarnation.
func (ft *faults) bringBack(h *host, d time.Duration) {
	if ft.wanted[h] {
		return
	}
	ft.wanted[h] = true
	ft.w.At(d, func() {
		delete(ft.wanted, h)
		if h.p == nil && !h.retired {
			ft.w.start(h)
			ft.w.net.announce(h)
		}
	})
}

// ways returns the directed links cut by an act.
func (ft *faults) ways(a *Act) [][2]*host {
	var ways [][2]*host
	if a.Fault == fault.Ring {
		ring := ft.hostsOf(a.Hosts)
		for i, from := range ring {
			for j, to := range ring {
				if apart := (i - j + len(ring)) % len(ring); apart > 1 && apart < len(ring)-1 {
					ways = append(ways, [2]*host{from, to})
				}
			}
		}
		return ways
	}
	for _, from := range ft.hostsOf(a.Hosts) {
		for _, to := range ft.hostsOf(a.Far) {
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
func (ft *faults) partition(a *Act, r *rand.Rand) bool {
	ways := ft.ways(a)
	if len(ways) == 0 {
		return false
	}
	ft.w.fig.Partitions++
	for _, way := range ways {
		ft.w.net.setCut(way[0], way[1], 1)
	}
	if ft.w.trace != nil {
		names := ""
		for _, way := range ways {
			names += fmt.Sprintf(" %s>%s", way[0].name, way[1].name)
		}
		ft.w.note(nil, "%v:%s", a.Fault, names)
	}
	if r.IntN(3) == 0 {
		ft.breakAcross(ways, r)
	}
	ft.lasting(a.For, func() {
		if r.IntN(3) == 0 {
			ft.breakAcross(ways, r)
		}
		for _, way := range ways {
			ft.w.net.setCut(way[0], way[1], -1)
		}
		ft.w.note(nil, "%v is over", a.Fault)
	})
	return true
}

func (ft *faults) breakAcross(ways [][2]*host, r *rand.Rand) {
	for i := len(ft.w.net.links) - 1; i >= 0; i-- {
		l := ft.w.net.links[i]
		for _, way := range ways {
			a, b := l.ends[0].host, l.ends[1].host
			if l.delivery == delivers && (a == way[0] && b == way[1] || a == way[1] && b == way[0]) {
				ft.w.net.breakLink(l, r)
			}
		}
	}
}

// Heal ends all faults: all processes run, and all hosts reach each other.
func (ft *faults) Heal() {
	ft.healed = true
	ft.w.note(nil, "the faults are over")
	for len(ft.undo) > 0 {
		u := ft.undo[0]
		ft.undo = ft.undo[1:]
		u.f()
	}
	for i := range ft.w.hosts {
		for j := range ft.w.hosts {
			ft.w.net.slow[i][j] = 0
			if n := ft.w.net.cut[i][j]; n > 0 {
				ft.w.net.setCut(ft.w.hosts[i], ft.w.hosts[j], -n)
			}
		}
	}
	clear(ft.w.dynamic.gray)
	for _, h := range ft.w.hosts {
		h.ambush = nil
		ft.w.wake(h)
		if h.p == nil && !h.retired {
			ft.w.start(h)
			ft.w.net.announce(h)
		}
	}
}

// voterAt returns the host reachable under a voter's name.
func (ft *faults) voterAt(name vote.NodeID) *host {
	return ft.w.hosts[ft.w.net.route[ft.w.net.voterPlace(name)]]
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
