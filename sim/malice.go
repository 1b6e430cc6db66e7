package sim

import (
	"math/rand/v2"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The faults that wait for an occasion.

// flap cuts ways and mends them, again and again.
func (w *World) flap(a *Act) bool {
	ways, on, over := w.ways(a), false, false
	if len(ways) == 0 || a.By <= 0 {
		return false
	}
	turn := func() {
		on = !on
		for _, way := range ways {
			w.setCut(way[0], way[1], 2*bit(on)-1)
		}
	}
	var again func()
	again = func() {
		if !over {
			turn()
			w.At(a.By, again)
		}
	}
	w.fig.Partitions++
	again()
	w.lasting(a.For, func() {
		over = true
		if on {
			turn()
		}
	})
	return true
}

// fullest is how many messages a choked connection takes at most before it ends.
const fullest = 8

// chokeFor has what one side of a connection sends stay where it is, in a short queue. When that is full the sender ends the connection, as the
// transport does.
func (w *World) chokeFor(l *link, side uint8, d time.Duration, r *rand.Rand, did func(bool)) {
	if l.full[side] != nil {
		return
	}
	most := r.IntN(fullest)
	w.setStall(l, side, 1)
	l.full[side] = func() bool {
		if l.lanes[side][ordered].len() < most {
			return false
		}
		l.full[side] = nil
		w.note(l.ends[side].host, "has a full queue for %s", l.ends[1-side].host.name)
		did(true)
		l.lanes[side][ordered].keep(r.IntN(l.lanes[side][ordered].len() + 1))
		l.fate = fateBroken
		w.fig.Overflows++
		w.push(event{at: w.now, kind: eventLearn, p: l.ends[side].p, l: l, side: side})
		if l.ends[1-side].open {
			w.learnWithin(l, 1-side, 50*time.Millisecond, r)
		}
		return true
	}
	w.lasting(d, func() {
		l.full[side] = nil
		w.setStall(l, side, -1)
	})
}

// misled says what becomes of a host's dials to a voter.
type misled struct {
	refused bool // the voter turns them away; otherwise they reach another machine
	did     func(bool)
}

// misleadFor has a host's dials to a voter fail. Gossip also says for no reason that the voter is back.
func (w *World) misleadFor(h, voter *host, a *Act, r *rand.Rand, did func(bool)) {
	way := [2]*host{h, voter}
	if w.misled[way] != nil || h == voter || !voter.voter {
		return
	}
	w.misled[way] = &misled{a.Fault == FaultRefuse, did}
	if l := w.linkBetween(a.Hosts, a.Far); l != nil && l.fate == fateStands && r.IntN(2) == 0 {
		w.breakLink(l, r)
	}
	news := func() {
		if h.p != nil {
			w.push(event{at: w.now, kind: eventDial, p: h.p, n: uint64(w.voterPlace(voter.name))})
		}
	}
	if a.Fault == FaultGossip {
		for range 1 + r.IntN(3) {
			w.At(within(r, a.For), news)
		}
	}
	w.disturb()
	w.lasting(a.For, func() {
		w.disturb()
		delete(w.misled, way)
	})
}

// ambush has a process die when it says or hears a word.
type ambush struct {
	word  vote.Kind
	says  bool // it dies when it has said it, rather than when it hears it
	after bool // it heeds the word first, and some of what it says to it is still sent
	kill  func()
}

// ambushWords are those in whose wake a requester or a voter knows something that nobody else does.
var ambushWords = [...]vote.Kind{
	vote.KindRequest, vote.KindConfirm, vote.KindYield, vote.KindRelease, vote.KindStatement, vote.KindAnswer, vote.KindPromise, vote.KindConfirmed,
	vote.KindInquire, vote.KindReleased, vote.KindRefresh, vote.KindAck, vote.KindAsk, vote.KindTell,
}

// electingWords are those of an election, and of what leads to it.
var electingWords = [...]vote.Kind{
	vote.KindPrepare, vote.KindPrepared, vote.KindAccept, vote.KindAccepted, vote.KindElectorate, vote.KindPoll, vote.KindReport,
}

// lieInWait arranges an ambush. Where the electorate follows the living, every other one waits for a word about it.
func (w *World) lieInWait(h *host, down time.Duration, r *rand.Rand, did func(bool)) {
	words := ambushWords[:]
	if w.opt.Following != nil && r.IntN(2) == 0 {
		words = electingWords[:]
	}
	b := &ambush{word: words[r.IntN(len(words))], says: r.IntN(2) == 0, after: r.IntN(2) == 0}
	b.kill = func() {
		if h.ambush != b || w.calm {
			return
		}
		h.ambush = nil
		if w.crash(h, endingMixed, r) {
			w.bringBack(h, down)
			did(true)
			w.fig.ElectorateAmbushes += uint64(bit(b.word.Elects()))
		}
	}
	h.ambush = b
}

// springs tells whether the process dies of a word before it heeds it. If it is to die later, that is arranged.
func (w *World) springs(h *host, word vote.Kind, says bool) bool {
	b := h.ambush
	switch {
	case b == nil || b.word != word || b.says != says:
		return false
	case says || b.after:
		w.At(0, b.kill)
		return false
	default:
		b.kill()
		return true
	}
}
