package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Observer is notified of what happens in a world, as it happens, for measurements (package
// sim/plan). Its methods may read the world, but must not change it: [World.At] and [World.AtNode]
// schedule changes. A world runs the same with an observer and without.
type Observer interface {
	// Granted: a request has won, and its user believes in the lease from now on.
	Granted(*Request)
	// Ended: a request is over. Its State says how.
	Ended(*Request)
	// Sent: a message leaves its sender. Between is false for messages between a node and its own
	// voter. The message belongs to the world and is valid for the length of the call only.
	Sent(from, to vote.SessionID, m *vote.Message, between bool)
}

// observeLocal reports a message between a node's requester and its own voter.
func (w *World) observeLocal(p *process, conn vote.Conn, m *vote.Message) {
	if w.opt.Observe != nil && conn == vote.LocalConn {
		w.opt.Observe.Sent(p.id, p.id, m, false)
	}
}

// observeSent reports a message from a side of a link.
func (w *World) observeSent(l *link, side uint8, m *vote.Message) {
	if w.opt.Observe != nil {
		w.opt.Observe.Sent(l.ends[side].p.id, l.ends[1-side].p.id, m, true)
	}
}

// mayBeLate reports whether late messages alone can explain an alarm. A new incarnation of a name
// is refused while the old incarnation answers a probe, and voters wait a quarter of a TTL for the
// answer. If messages travel for as long, a message that the old incarnation sent before its crash
// passes for an answer. The mistake costs time, but no lock.
func (w *World) mayBeLate(alarm string) bool {
	return w.opt.LateMessages && strings.Contains(alarm, "another live process is called")
}

// AtNode has the process that runs on a node call f after d: never if the process has crashed by
// then, and later if the process is stopped.
func (w *World) AtNode(node string, d time.Duration, f func()) {
	p := w.host(node).p
	if p == nil {
		panic(fmt.Sprintf("sim: %s isn't running", node))
	}
	w.push(event{at: w.now.Add(d), kind: eventRun, p: p, f: f})
}

// Session returns the name and incarnation of the process that runs on a node; a zero SessionID if
// none runs.
func (w *World) Session(node string) vote.SessionID {
	if p := w.host(node).p; p != nil {
		return p.id
	}
	return vote.SessionID{}
}

// Stopped reports whether a node's process is kept from running.
func (w *World) Stopped(node string) bool { return w.host(node).hung != pauseNone }

// ReachesMajority reports whether a node runs, and has open ways to and from enough running and
// counting voters for a majority. The node may not know yet, and may not be connected to these
// voters: see [scenario.Ready].
func (w *World) ReachesMajority(node string) bool {
	h := w.host(node)
	if h.p == nil || h.hung != pauseNone {
		return false
	}
	n := 0
	for _, i := range w.net.route {
		v := w.hosts[i]
		if v.p != nil && v.hung == pauseNone && !w.validity.isQuiet(v.p) && v.p.m.Voter().Quiet() <= 0 &&
			(v == h || w.net.isOpen(h, v) && w.net.isOpen(v, h)) {
			n++
		}
	}
	return n >= w.quorum
}
