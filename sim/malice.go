package sim

import (
	"math/rand/v2"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Faults of longer duration: some come and go, and some wait for an event.

// flap cuts and mends ways between hosts, again and again.
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

// fullest is how many messages a choked connection queues at most before it ends.
const fullest = 8

// chokeFor holds the messages of one side of a connection back in a short queue. When the queue is
// full, the sender ends the connection, as the transport does.
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

// misled says how a host's dials to a voter fail.
type misled struct {
	refused bool // the voter refuses the dials; otherwise they reach another machine
	did     func(bool)
}

// misleadFor makes a host's dials to a voter fail. With FaultGossip, gossip also reports the
// voter's return, without cause.
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

// ambush makes a process crash as the process sends or receives a message of one kind.
type ambush struct {
	word  vote.Kind
	says  bool // crash after sending such a message, rather than on receiving one
	after bool // handle the received message first; some of the replies are still sent
	kill  func()
}

// ambushWords are the kinds of messages after which a requester or a voter alone knows something.
var ambushWords = [...]vote.Kind{
	vote.KindRequest, vote.KindConfirm, vote.KindYield, vote.KindRelease, vote.KindSync, vote.KindAnswer, vote.KindPromise, vote.KindConfirmed,
	vote.KindInquire, vote.KindReleased, vote.KindRefresh, vote.KindAck, vote.KindAsk, vote.KindTell,
}

// electingWords are the kinds of messages of an election, and of its preparation.
var electingWords = [...]vote.Kind{
	vote.KindPrepare, vote.KindPrepared, vote.KindAccept, vote.KindAccepted, vote.KindElectorate, vote.KindPoll, vote.KindReport,
}

// lieInWait arranges an ambush. With dynamic membership, half of all ambushes wait for a message
// about the electorate.
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
			w.fig.ElectorateAmbushes += uint64(bit(b.word.IsConsensus()))
		}
	}
	h.ambush = b
}

// springs reports whether an ambush crashes the process before the message is handled. A crash due
// after the message was handled or sent is scheduled.
func (w *World) springs(h *host, word vote.Kind, says bool) bool {
	if len(w.lurks) > 0 && word.IsConsensus() {
		w.strikeWord(h, word, says)
	}
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
