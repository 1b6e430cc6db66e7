package lease

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// admit decides whether a new incarnation may use a name that another incarnation may still use.
// admit reports whether the new incarnation may go on, and whether only as a candidate, until the
// other incarnation has failed to answer a probe.
//
// The voter doesn't ask gossip: gossip needs seconds to notice a kill -9, and the same name comes
// back in milliseconds.
func (l *sessionLayer) admit(conn vote.Conn, from vote.SessionID, stream vote.Stream) (candidate, ok bool) {
	if from.Node == l.cfg.Self.Node && from != l.cfg.Self {
		// Another process uses this node's name. A probe is unnecessary: this process is alive.
		l.alarmDuplicate(l.cfg.Self, from)
		l.refuse(conn, stream, vote.ReasonNameTaken)
		return false, false
	}
	var older *session
	for _, s := range l.sessions.listed {
		if s.id.Node != from.Node || s.claim == claimSuperseded {
			continue
		}
		if s.claim.isCandidate() {
			// A third incarnation has arrived while the voter decides between two. The third may
			// well be the only live incarnation, so it isn't refused: the node will dial again.
			l.closeConn(conn)
			return false, false
		}
		older = s
	}
	switch {
	case older == nil:
		return false, true
	case older.isLinked():
		l.send(older.conn, vote.KindProbe).Stream = older.stream
		return true, true
	default:
		// The older incarnation has lost its connection, so it isn't probed. The new incarnation is
		// probed: its messages may be late messages of a crashed incarnation (found by
		// worlds with dynamic membership).
		return true, true
	}
}

// alive processes the answer to a probe. If the older incarnation of the name answers, the
// candidate is refused.
func (v *Voter) alive(s *session) {
	if s.claim.isCandidate() {
		if s.claim == claimCandidate {
			s.become(claimProven)
		}
		linked := func(o *session) bool {
			return o != s && o.id.Node == s.id.Node && o.isLinked()
		}
		if !slices.ContainsFunc(v.sessions.listed, linked) {
			v.takeOver(s) // no other connected incarnation is left to wait for
		}
		return
	}
	for _, c := range v.sessions.listed {
		if c.id.Node == s.id.Node && c.claim.isCandidate() && c != s {
			v.alarmDuplicate(s.id, c.id)
			v.refuse(c.conn, c.stream, vote.ReasonNameTaken)
			v.remove(c)
			return
		}
	}
}

// takeOver gives a name to its candidate, since the older incarnation hasn't answered the probe.
// The candidate must have answered: otherwise its messages may be late messages of a crashed
// incarnation, and the older incarnation may only have been paused for a moment.
func (v *Voter) takeOver(c *session) {
	if c.claim != claimProven {
		v.closeConn(c.conn)
		v.remove(c)
		return
	}
	for _, s := range v.sessions.listed {
		if s.id.Node == c.id.Node && s != c && s.claim != claimSuperseded {
			v.supersede(s)
		}
	}
	c.become(claimOwner)
	v.sessions.rescan()
	v.goOn(c)
}

// alarmDuplicate reports a duplicate name to the operator, unless the last report was about the
// same refused incarnation.
func (l *sessionLayer) alarmDuplicate(stays, goes vote.SessionID) {
	if l.sessions.duplicateName == goes {
		return
	}
	l.sessions.duplicateName = goes
	l.alarm("two processes call themselves %q: incarnation %x continues, incarnation %x is "+
		"refused; give one of them another name",
		stays.Node, uint64(stays.Incarnation), uint64(goes.Incarnation))
}

// supersede takes the name from an incarnation. The votes of the incarnation stand until its
// session's deadline, since the holder may still count them; the session gets no extensions and no
// further promises.
func (v *Voter) supersede(s *session) {
	v.count.Superseded++
	s.become(claimSuperseded)
	v.sessions.rescan()
	if s.isLinked() {
		v.refuse(s.conn, s.stream, vote.ReasonNameTaken)
	}
	s.moveTo(streamNone)
	v.leave(&ending{s: s})
}

func (l *sessionLayer) refuse(conn vote.Conn, stream vote.Stream, reason vote.Reason) {
	l.count.Refused++
	m := l.send(conn, vote.KindRefused)
	m.Stream, m.Reason, m.Epoch = stream, reason, l.electorate.Version
}
