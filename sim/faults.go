package sim

import (
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Fault is one kind of thing that goes wrong.
type Fault uint8

// What may go wrong. Where a fault lasts, its end is drawn with it.
const (
	// FaultCrash : a process dies and comes back at once, soon or late.
	FaultCrash Fault = iota
	// FaultCrashAll : all processes die at once and come back at once or one by one.
	FaultCrashAll
	// FaultRolling : the processes are restarted one after the other.
	FaultRolling
	// FaultStop : a process doesn't run for a while.
	FaultStop
	// FaultSuspend : a machine is suspended for a while.
	FaultSuspend
	// FaultUnseen : a virtual machine is paused and no clock shows it. For runs with Options.TokensOnly.
	FaultUnseen
	// FaultSplit : a partition in two, symmetric.
	FaultSplit
	// FaultOneWay : messages go one way only between two parts.
	FaultOneWay
	// FaultBridge : two parts that only one node sees both of.
	FaultBridge
	// FaultIsolate : one node is alone.
	FaultIsolate
	// FaultLink : the way between two nodes is cut.
	FaultLink
	// FaultBreak : a connection breaks.
	FaultBreak
	// FaultStall : what one side of a connection sends is held up, beyond the TTL perhaps, and then arrives.
	FaultStall
	// FaultSlow : the way between two nodes becomes slow.
	FaultSlow
	// FaultWall : a wall clock is stepped, by milliseconds to hours.
	FaultWall
	// FaultTwin : a process of a node that doesn't vote seems dead, and another is started under its name; then it goes on, and one
	// of the two ends.
	FaultTwin
	// FaultRate : the rate of a machine's clocks changes, within the bound.
	FaultRate

	faultEnd
)

var faultNames = [...]string{
	"crash", "crash all", "rolling restart", "stop", "suspend", "pause unseen", "split", "one-way cut", "bridge", "isolate", "cut link",
	"break", "stall", "slow link", "wall step", "twin", "rate change",
}

func (f Fault) String() string { return faultNames[f] }

// Faults say what goes wrong at random, and how often.
type Faults struct {
	// Every is the mean time between two faults; zero means that nothing goes wrong.
	Every time.Duration
	// Weights say how often each kind is drawn, in relation to the others; a kind with zero never happens.
	Weights [faultEnd]int
	// WallSteps is how far a wall clock may be stepped.
	WallSteps time.Duration
}

// faults is the part of the world that does harm.
type faults struct {
	calm   bool // the faults are over
	undo   []undo
	undoN  uint64
	total  int            // of the weights
	wanted map[*host]bool // hosts that a fault will restart
}

// undo ends a fault that lasts.
type undo struct {
	n uint64
	f func()
}

func (w *World) setUpFaults() {
	w.wanted = make(map[*host]bool)
	for _, n := range w.opt.Faults.Weights {
		w.total += n
	}
	if w.opt.Faults.Every > 0 && w.total > 0 {
		w.nextFault()
	}
}

func (w *World) nextFault() {
	w.At(time.Duration(w.fltRnd.Int64N(2*int64(w.opt.Faults.Every))), func() {
		if w.calm {
			return
		}
		n := w.fltRnd.IntN(w.total)
		for f, weight := range w.opt.Faults.Weights {
			if n -= weight; n < 0 {
				w.fault(Fault(f))
				break
			}
		}
		w.nextFault()
	})
}

// span draws how long a fault lasts: mostly less than a TTL, sometimes several.
func (w *World) span() time.Duration {
	ttl := int64(w.opt.MaxTTL)
	switch w.fltRnd.IntN(5) {
	case 0, 1:
		return time.Duration(w.fltRnd.Int64N(ttl/2 + 1))
	case 2, 3:
		return time.Duration(w.fltRnd.Int64N(3*ttl/2) + ttl/4)
	default:
		return time.Duration(w.fltRnd.Int64N(4*ttl) + ttl)
	}
}

func (w *World) someHost() *host { return w.hosts[w.fltRnd.IntN(len(w.hosts))] }

// lasting begins something that ends after a span, or when the faults are over.
func (w *World) lasting(end func()) {
	w.undoN++
	n := w.undoN
	w.undo = append(w.undo, undo{n, end})
	w.At(w.span(), func() {
		for i, u := range w.undo {
			if u.n == n {
				w.undo = append(w.undo[:i:i], w.undo[i+1:]...)
				u.f()
				return
			}
		}
	})
}

// fault makes one thing go wrong.
func (w *World) fault(f Fault) {
	w.fig.Fired[f]++
	w.mix(uint64(f))
	switch r := w.fltRnd; f {
	case FaultCrash:
		h := w.someHost()
		w.crash(h, endingMixed, r)
		w.comeBack(h)
	case FaultCrashAll:
		together := r.IntN(2) == 0
		for _, h := range w.hosts {
			w.crash(h, endingMixed, r)
			if together {
				w.bringBack(h, w.within(10*time.Millisecond))
			} else {
				w.comeBack(h)
			}
		}
	case FaultRolling:
		step := w.opt.MaxTTL/4 + time.Duration(r.Int64N(int64(2*w.opt.MaxTTL)))
		for i, j := range r.Perm(len(w.hosts)) {
			h := w.hosts[j]
			w.At(time.Duration(i)*step, func() {
				if !w.calm {
					w.crash(h, endingAtOnce, r)
					w.bringBack(h, w.within(step/4))
				}
			})
		}
	case FaultStop, FaultSuspend, FaultUnseen:
		h := w.someHost()
		if h.p == nil || h.hung != pauseNone {
			return
		}
		p := h.p
		w.halt(h, [...]pause{FaultStop: pauseStopped, FaultSuspend: pauseAsleep, FaultUnseen: pauseUnseen}[f])
		w.lasting(func() {
			if h.p == p {
				w.wake(h)
			}
		})
	case FaultSplit, FaultOneWay, FaultBridge:
		side := make([]bool, len(w.hosts))
		for i := range side {
			side[i] = r.IntN(2) == 0
		}
		bridge := -1
		if f == FaultBridge {
			bridge = r.IntN(len(w.hosts))
		}
		w.partition(f.String(), func(from, to *host) bool {
			return from.i != bridge && to.i != bridge && side[from.i] != side[to.i] && (f != FaultOneWay || side[from.i])
		})
	case FaultIsolate:
		h := w.someHost()
		w.partition(f.String(), func(from, to *host) bool { return from == h || to == h })
	case FaultLink:
		a, b, both := w.someHost(), w.someHost(), r.IntN(2) == 0
		w.partition(f.String(), func(from, to *host) bool { return from == a && to == b || both && from == b && to == a })
	case FaultBreak:
		if len(w.links) > 0 {
			w.breakLink(w.links[r.IntN(len(w.links))], r)
		}
	case FaultStall:
		if len(w.links) > 0 {
			l, side := w.links[r.IntN(len(w.links))], uint8(r.IntN(2))
			w.note(nil, "%v stalls", l)
			w.setStall(l, side, 1)
			w.lasting(func() { w.setStall(l, side, -1) })
		}
	case FaultSlow:
		a, b := w.someHost(), w.someHost()
		d := time.Duration(r.Int64N(int64(w.opt.MaxTTL / 4)))
		w.setSlow(a, b, d)
		w.lasting(func() { w.setSlow(a, b, -d) })
	case FaultWall:
		most := int64(w.opt.Faults.WallSteps)
		most >>= r.IntN(20) // small steps are as interesting as large ones
		w.stepWall(w.someHost(), time.Duration(r.Int64N(2*most+1)-most))
	case FaultTwin:
		w.twinFault()
	case FaultRate:
		ppm := r.Int64N(3*MaxPPM) - 3*MaxPPM/2
		w.retune(w.someHost(), min(max(ppm, -MaxPPM), MaxPPM))
	}
}

// twinsMost bounds how many twins a run may have: each is a host more.
const twinsMost = 8

// twinFault starts a second process with the name of one that seems dead. Later the first goes on, and later still one of the two ends
// for good.
func (w *World) twinFault() {
	h := w.someHost()
	if h.voter || h.p == nil || h.hung != pauseNone || h.twinned || len(w.hosts) >= w.opt.Voters+w.opt.Clients+twinsMost {
		return
	}
	w.halt(h, pauseStopped)
	first, t := h.p, w.twin(h)
	h.twinned, t.twinned = true, true
	end := func() {
		victim := []*host{h, t}[w.fltRnd.IntN(2)]
		h.twinned, t.twinned, victim.retired = false, false, true
		w.crash(victim, endingMixed, w.fltRnd)
	}
	w.lasting(func() {
		if h.p == first {
			w.wake(h)
		}
		if w.calm {
			end()
		} else {
			w.lasting(end)
		}
	})
}

// comeBack arranges a new life: at once (before anybody has noticed), soon or late.
func (w *World) comeBack(h *host) {
	d := time.Duration(0)
	switch w.fltRnd.IntN(3) {
	case 0:
		d = w.span()
	case 1:
		d = time.Duration(w.fltRnd.Int64N(int64(w.opt.MaxTTL / 4)))
	}
	w.bringBack(h, d)
}

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

// partition cuts ways between hosts for a while. Connections across may break for it, at once or when it heals.
func (w *World) partition(what string, cuts func(from, to *host) bool) {
	w.fig.Partitions++
	var ways [][2]*host
	for _, from := range w.hosts {
		for _, to := range w.hosts {
			if from != to && cuts(from, to) {
				ways = append(ways, [2]*host{from, to})
				w.setCut(from, to, 1)
			}
		}
	}
	if w.trace != nil {
		names := ""
		for _, way := range ways {
			names += fmt.Sprintf(" %s>%s", way[0].name, way[1].name)
		}
		w.note(nil, "%s:%s", what, names)
	}
	if w.fltRnd.IntN(3) == 0 {
		w.breakAcross(ways)
	}
	w.lasting(func() {
		if w.fltRnd.IntN(3) == 0 {
			w.breakAcross(ways)
		}
		for _, way := range ways {
			w.setCut(way[0], way[1], -1)
		}
		w.note(nil, "%s is over", what)
	})
}

func (w *World) breakAcross(ways [][2]*host) {
	for i := len(w.links) - 1; i >= 0; i-- {
		l := w.links[i]
		for _, way := range ways {
			a, b := l.ends[0].host, l.ends[1].host
			if l.fate == fateStands && (a == way[0] && b == way[1] || a == way[1] && b == way[0]) {
				w.breakLink(l, w.fltRnd)
			}
		}
	}
}

// Heal ends all faults: everything runs, everyone reaches everyone.
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
	for _, h := range w.hosts {
		w.wake(h)
		if h.p == nil && !h.retired {
			w.start(h)
			w.herald(h)
		}
	}
}

// voterAt returns the host that answers to a voter's name.
func (w *World) voterAt(name vote.NodeID) *host { return w.hosts[w.route[w.voterPlace(name)]] }
