package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Observer is told what happens in a world, as it happens, for those who measure (package sim/plan). From within a call it may look,
// but change nothing: [World.At] and [World.AtNode] do that. A world with an observer runs as it does without.
type Observer interface {
	// Granted : a request has won, and its user believes so from now on.
	Granted(*Request)
	// Ended : a request is over. Its State says how.
	Ended(*Request)
	// Sent : a message leaves its sender. Between is false for what a node says to its own voter, and the reverse.
	// The message is the world's; it stands for the length of the call only.
	Sent(from, to vote.SessionID, m *vote.Message, between bool)
}

// observeLocal tells of a word between a node's requester and its own voter.
func (w *World) observeLocal(p *process, conn vote.Conn, m *vote.Message) {
	if w.opt.Observe != nil && conn == vote.LocalConn {
		w.opt.Observe.Sent(p.id, p.id, m, false)
	}
}

// observeSent tells of a word that one side of a link says.
func (w *World) observeSent(l *link, side uint8, m *vote.Message) {
	if w.opt.Observe != nil {
		w.opt.Observe.Sent(l.ends[side].p.id, l.ends[1-side].p.id, m, true)
	}
}

// mayBeLate reports whether an alarm is one that late words alone bring about. A new life of a name is turned away while the old one
// answers a probe, and voters wait a quarter of a TTL for that. Where messages take as long, what the old life had said before it died
// passes for an answer. It costs time, and nobody's lock.
func (w *World) mayBeLate(alarm string) bool {
	return w.opt.LateWords && strings.Contains(alarm, "another live process is called")
}

// AtNode has f called at a time from now by the process that runs on a node: never if it is dead by then, and later if it is stopped.
func (w *World) AtNode(node string, d time.Duration, f func()) {
	p := w.host(node).p
	if p == nil {
		panic(fmt.Sprintf("sim: %s isn't running", node))
	}
	w.push(event{at: w.now.add(d), kind: eventRun, p: p, f: f})
}

// Session returns the name and the life of the process that runs on a node; a zero one when none does.
func (w *World) Session(node string) vote.SessionID {
	if p := w.host(node).p; p != nil {
		return p.id
	}
	return vote.SessionID{}
}

// Stopped reports whether something keeps a node's process from running.
func (w *World) Stopped(node string) bool { return w.host(node).hung != pauseNone }

// ReachesMajority reports whether a node runs and the ways to and from a majority of the voters are open, which run and count. Whether it
// knows that by now, and is connected to them, is another matter: see [World.Ready].
func (w *World) ReachesMajority(node string) bool {
	h := w.host(node)
	if h.p == nil || h.hung != pauseNone {
		return false
	}
	n := 0
	for _, i := range w.route {
		v := w.hosts[i]
		if v.p != nil && v.hung == pauseNone && !w.isQuiet(v.p) && v.p.m.Voter().Quiet() <= 0 &&
			(v == h || w.isOpen(h, v) && w.isOpen(v, h)) {
			n++
		}
	}
	return n >= w.quorum
}
