package lease

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// admit decides what becomes of a life whose name another life may bear. It reports whether the life may go on, and whether as
// a candidate only, until the other has failed to answer a probe.
//
// Gossip isn't asked: after a kill -9 it takes seconds to notice, and the same name comes back in milliseconds.
func (v *Voter) admit(conn vote.Conn, from vote.SessionID, stream vote.Stream) (candidate, ok bool) {
	if from.Node == v.cfg.Self.Node && from != v.cfg.Self {
		// Somebody else bears our own name, and we are alive: no probe is needed, and none could find us dead.
		v.alarmRival(v.cfg.Self, from)
		v.refuse(conn, stream, vote.ReasonNameTaken)
		return false, false
	}
	var older *session
	for _, s := range v.listed {
		if s.id.Node != from.Node || s.superseded {
			continue
		}
		if s.candidate {
			// A third one while two are being told apart. It may well be the only one that lives, so it isn't turned away: it
			// will dial again.
			v.closeConn(conn)
			return false, false
		}
		older = s
	}
	switch {
	case older == nil:
		return false, true
	case older.linked:
		v.say(older.conn, vote.KindProbe).Stream = older.stream
		return true, true
	default:
		v.supersede(older)
		return false, true
	}
}

// contested reports whether another life waits for the session's name.
func (v *Voter) contested(s *session) bool {
	return slices.ContainsFunc(v.listed, func(c *session) bool { return c != s && c.candidate && c.id.Node == s.id.Node })
}

// alive takes the answer to a probe. When the older life of the name lives, the candidate is turned away.
func (v *Voter) alive(s *session) {
	if s.candidate {
		s.answered = true
		return
	}
	for _, c := range v.listed {
		if c.id.Node == s.id.Node && c.candidate && c != s {
			v.alarmRival(s.id, c.id)
			v.refuse(c.conn, c.stream, vote.ReasonNameTaken)
			v.remove(c)
			return
		}
	}
}

// takeOver makes a candidate its name's session: the older life hasn't answered. The candidate must have: otherwise its words may be
// those of a life that is dead by now, which came late, and the other may only have been stopped for a moment.
func (v *Voter) takeOver(c *session) {
	if !c.answered {
		v.closeConn(c.conn)
		v.remove(c)
		return
	}
	for _, s := range v.listed {
		if s.id.Node == c.id.Node && s != c && !s.superseded {
			v.supersede(s)
		}
	}
	c.candidate, v.moved = false, true
	switch {
	case c.spoke: // what it said after its statement was not taken in, so it states all anew
		v.unknown(c.conn, c.stream)
	case c.complete:
		v.apply(c)
	}
}

// alarmRival tells of two processes with one name, once for each life that is turned away.
func (v *Voter) alarmRival(stays, goes vote.SessionID) {
	if v.rival == goes {
		return
	}
	v.rival = goes
	v.alarm("two processes call themselves %q: life %x goes on, life %x is refused; give one of them another name",
		stays.Node, uint64(stays.Life), uint64(goes.Life))
}

// supersede takes a life out of its name. Its votes stand until its deadline, since its holder may still count them; nothing is
// extended and nothing more is promised to it.
func (v *Voter) supersede(s *session) {
	v.count.Superseded++
	s.superseded, v.moved = true, true
	if s.linked {
		v.refuse(s.conn, s.stream, vote.ReasonNameTaken)
		s.linked = false
	}
	for _, e := range s.sorted() {
		if e.serial == 0 {
			v.drop(e, true)
		}
	}
}

func (v *Voter) refuse(conn vote.Conn, stream vote.Stream, why vote.Reason) {
	v.count.Refused++
	m := v.say(conn, vote.KindRefused)
	m.Stream, m.Reason, m.Elected = stream, why, v.elected.Version
}
