package sim

import (
	"math/rand/v2"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// Faults of longer duration: some come and go, and some wait for an event.

// flap cuts and mends ways between hosts, again and again.
func (ft *faults) flap(a *Act) bool {
	ways, on, over := ft.ways(a), false, false
	if len(ways) == 0 || a.By <= 0 {
		return false
	}
	turn := func() {
		on = !on
		for _, way := range ways {
			ft.w.net.setCut(way[0], way[1], 2*bit(on)-1)
		}
	}
	var again func()
	again = func() {
		if !over {
			turn()
			ft.w.At(a.By, again)
		}
	}
	ft.w.fig.Partitions++
	again()
	ft.lasting(a.For, func() {
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
func (ft *faults) chokeFor(l *link, side uint8, d time.Duration, r *rand.Rand, did func(bool)) {
	if l.full[side] != nil {
		return
	}
	most := r.IntN(fullest)
	ft.w.net.setStall(l, side, 1)
	l.full[side] = func() bool {
		if l.lanes[side][ordered].len() < most {
			return false
		}
		l.full[side] = nil
		ft.w.note(l.ends[side].host, "has a full queue for %s", l.ends[1-side].host.name)
		did(true)
		l.lanes[side][ordered].keep(r.IntN(l.lanes[side][ordered].len() + 1))
		l.delivery = breaks
		ft.w.fig.Overflows++
		ft.w.push(event{at: ft.w.now, kind: eventLearn, p: l.ends[side].p, l: l, side: side})
		if l.ends[1-side].open {
			ft.w.net.learnWithin(l, 1-side, 50*time.Millisecond, r)
		}
		return true
	}
	ft.lasting(d, func() {
		l.full[side] = nil
		ft.w.net.setStall(l, side, -1)
	})
}

// misdialed is how a host's dials to a voter fail.
type misdialed struct {
	refused bool // the voter refuses the dials; otherwise they reach another machine
	did     func(bool)
}

// misdialFor makes a host's dials to a voter fail. With fault.Gossip, gossip also reports the
// voter's return, without cause.
func (ft *faults) misdialFor(h, voter *host, a *Act, r *rand.Rand, did func(bool)) {
	way := [2]*host{h, voter}
	if ft.misdialed[way] != nil || h == voter || !voter.voter {
		return
	}
	ft.misdialed[way] = &misdialed{a.Fault == fault.Refuse, did}
	if l := ft.linkBetween(a.Hosts, a.Far); l != nil && l.delivery == delivers && r.IntN(2) == 0 {
		ft.w.net.breakLink(l, r)
	}
	news := func() {
		if h.p != nil {
			ft.w.push(event{at: ft.w.now, kind: eventDial, p: h.p, n: uint64(ft.w.net.voterPlace(voter.name))})
		}
	}
	if a.Fault == fault.Gossip {
		for range 1 + r.IntN(3) {
			ft.w.At(fault.Within(r, a.For), news)
		}
	}
	ft.w.order.disturb()
	ft.lasting(a.For, func() {
		ft.w.order.disturb()
		delete(ft.misdialed, way)
	})
}

// ambush makes a process crash as the process sends or receives a message of one kind.
type ambush struct {
	kind  vote.Kind
	sends bool // crash after sending such a message, rather than on receiving one
	after bool // handle the received message first; some of the replies are still sent
	kill  func()
}

// ambushKinds are the kinds of messages after which a requester or a voter alone knows something.
var ambushKinds = [...]vote.Kind{
	vote.KindRequest, vote.KindConfirm, vote.KindYield, vote.KindRelease, vote.KindSync, vote.KindAnswer, vote.KindPromise, vote.KindConfirmed,
	vote.KindInquire, vote.KindReleased, vote.KindRefresh, vote.KindAck, vote.KindTokenQuery, vote.KindTokenAnswer,
}

// consensusKinds are the kinds of messages of an election, and of its preparation.
var consensusKinds = [...]vote.Kind{
	vote.KindPrepare, vote.KindPrepared, vote.KindAccept, vote.KindAccepted, vote.KindElectorate, vote.KindPoll, vote.KindReport,
}

// setAmbush arranges an ambush. With dynamic membership, half of all ambushes wait for a message
// about the electorate.
func (ft *faults) setAmbush(h *host, down time.Duration, r *rand.Rand, did func(bool)) {
	kinds := ambushKinds[:]
	if ft.w.opt.Dynamic != nil && r.IntN(2) == 0 {
		kinds = consensusKinds[:]
	}
	b := &ambush{kind: kinds[r.IntN(len(kinds))], sends: r.IntN(2) == 0, after: r.IntN(2) == 0}
	b.kill = func() {
		if h.ambush != b || ft.healed {
			return
		}
		h.ambush = nil
		if ft.w.crash(h, endingMixed, r) {
			ft.bringBack(h, down)
			did(true)
			ft.w.fig.ElectorateAmbushes += uint64(bit(b.kind.IsConsensus()))
		}
	}
	h.ambush = b
}

// springs reports whether an ambush crashes the process before the message is handled. A crash due
// after the message was handled or sent is scheduled.
func (ft *faults) springs(h *host, kind vote.Kind, sends bool) bool {
	if len(ft.w.nemesis.pending) > 0 && kind.IsConsensus() {
		ft.w.nemesis.triggerByMessage(h, kind, sends)
	}
	b := h.ambush
	switch {
	case b == nil || b.kind != kind || b.sends != sends:
		return false
	case sends || b.after:
		ft.w.At(0, b.kill)
		return false
	default:
		b.kill()
		return true
	}
}
