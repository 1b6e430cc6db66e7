package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// pause is the reason why a host's process isn't running.
type pause uint8

const (
	pauseNone    pause = iota
	pauseStopped       // a signal or a garbage collection: clocks go on
	// The machine is suspended: the slow clock stands still, the fast clock goes on.
	pauseAsleep
	// A virtual machine is paused and no clock shows the pause. This is beyond the assumptions of
	// exclusion.
	pauseUnseen
)

var pauseNames = [...]string{"", "stopped", "suspended", "paused unseen"}

// ending is how the peers of a dead process learn of its end.
type ending uint8

const (
	endingAtOnce ending = iota // the kernel closes the connections
	// Each peer learns of the end soon, late, only when sending to the machine of a new
	// incarnation, or never.
	endingMixed
	endingSilent // no peer learns anything
)

// crash ends a host's process with all its memory, and reports whether a process was running. If r
// is not nil, a part of the messages sent is lost.
func (w *World) crash(h *host, how ending, r *rand.Rand) bool {
	p := h.p
	if p == nil {
		return false
	}
	rng := r
	if rng == nil {
		rng = h.rng
	}
	w.note(h, "dies")
	w.order.disturb()
	w.pic.Died(w.Now(), h.i)
	w.fig.Crashes++
	if h.hung != pauseNone {
		w.wake(h)
	}
	w.validity.recordResiduals(p)
	p.dead = true
	h.disk.powerFails(rng)
	h.p = nil
	for c := 1; c < len(p.conns); c++ {
		l, side := p.conns[c].l, p.conns[c].side
		if l == nil {
			continue
		}
		if l.delivery == delivers {
			l.delivery = breaks
		}
		for i := range l.lanes[side] {
			if a := &l.lanes[side][i]; a.len() > 0 && r != nil {
				a.keep(r.IntN(a.len() + 1))
			}
		}
		w.net.forget(l, side)
		far := &l.ends[1-side]
		if !far.open {
			continue
		}
		breakage := 0
		if how == endingMixed {
			breakage = rng.IntN(8)
		}
		switch {
		case how == endingSilent || breakage == 7:
			l.delivery = blackholes
		case breakage == 6:
		case breakage == 5:
			w.net.learnWithin(l, 1-side, 3*w.opt.MaxTTL, rng)
		default:
			if w.net.isOpen(h, far.host) {
				w.net.learnWithin(l, 1-side, 20*time.Millisecond, rng)
			}
		}
	}
	w.judge.onProcessDead(p)
	return true
}

// halt keeps a host's process from running until wake. It reports false if no process is running or
// the process is halted already.
func (w *World) halt(h *host, how pause) bool {
	if h.p == nil || h.hung != pauseNone {
		return false
	}
	w.note(h, "stops (%s)", pauseNames[how])
	w.order.disturb()
	w.pic.Paused(w.Now(), h.i, pauseNames[how], how == pauseUnseen)
	h.hung = how
	h.p.stops++
	w.fig.Pauses++
	for _, c := range []*clock{&h.clock, &h.p.clock} {
		switch how {
		case pauseAsleep:
			c.suspend(w.now)
		case pauseUnseen:
			c.freeze(w.now)
		}
	}
	return true
}

// wake lets a host's process run again. The process finds the inputs received meanwhile and its due
// timers, in either order.
func (w *World) wake(h *host) {
	p := h.p
	if p == nil || h.hung == pauseNone {
		return
	}
	w.note(h, "goes on")
	w.order.disturb()
	w.pic.Resumed(w.Now(), h.i)
	h.hung = pauseNone
	h.clock.resume(w.now)
	p.clock.resume(w.now)
	p.stops++
	p.woke = w.now
	backlog := p.backlog
	p.backlog = nil
	tick := event{at: w.now, kind: eventTick, p: p}
	p.tick = w.now
	if h.rng.IntN(2) == 0 {
		w.push(tick)
		tick = event{}
	}
	for _, e := range backlog {
		if e.kind == eventTick {
			continue
		}
		e.at = w.now
		w.push(e)
	}
	if tick.p != nil {
		w.push(tick)
	}
}

// stepWall moves a host's wall clock.
func (w *World) stepWall(h *host, by time.Duration) {
	w.note(h, "has its wall clock moved by %v", by)
	w.order.disturb()
	if w.pic != nil {
		w.pic.ClockChanged(w.Now(), h.i, fmt.Sprintf("wall clock moved by %v", by))
	}
	w.fig.Steps++
	h.foremost = max(h.foremost, h.clock.at(w.now).Wall)
	h.clock.step(w.now, by)
	if h.p != nil {
		h.p.clock.step(w.now, by)
	}
}

// retune changes the rate of a host's clocks.
func (w *World) retune(h *host, ppm int64) {
	w.note(h, "has clocks that err by %d ppm from now on", ppm)
	if w.pic != nil {
		w.pic.ClockChanged(w.Now(), h.i, fmt.Sprintf("clocks err by %d ppm from here on", ppm))
	}
	h.clock.retune(w.now, ppm)
	if h.p == nil {
		return
	}
	h.p.clock.retune(w.now, ppm)
	w.arm(h.p)
	for _, k := range w.judge.lockKeys {
		for _, r := range k.holds {
			if r.p == h.p && w.judge.believes(r) {
				w.judge.place(r)
			}
		}
	}
}

// left returns the time until an instant on the process's fast clock.
func (p *process) left(g Moment, i vote.Instant) time.Duration { return i.Sub(p.clock.fastAt(g)) }
