package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// admit decides what becomes of a life whose name another life may bear. It reports whether the life may go on, and whether as
// a candidate only, until the other has failed to answer a probe.
//
// Gossip isn't asked: after a kill -9 it takes seconds to notice, and the same name comes back in milliseconds.
func (v *Voter) admit(conn vote.Conn, from vote.SessionID) (candidate, ok bool) {
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
		v.send(older.conn, vote.Message{Kind: vote.KindProbe, Stream: older.stream})
		return true, true
	default:
		v.supersede(older)
		return false, true
	}
}

// alive takes the answer to a probe: the older life of the name lives, so the candidate is turned away.
func (v *Voter) alive(s *session) {
	for _, c := range v.listed {
		if c.id.Node == s.id.Node && c.candidate && c != s {
			v.alarm("two processes call themselves %q: life %x goes on, life %x is refused; give one of them another name",
				s.id.Node, uint64(s.id.Life), uint64(c.id.Life))
			v.refuse(c.conn, c.stream, vote.ReasonNameTaken)
			v.remove(c)
			return
		}
	}
}

// takeOver makes a candidate its name's session: the older life hasn't answered.
func (v *Voter) takeOver(c *session) {
	for _, s := range v.listed {
		if s.id.Node == c.id.Node && s != c && !s.superseded {
			v.supersede(s)
		}
	}
	c.candidate = false
	if c.complete {
		v.apply(c)
	}
}

// supersede takes a life out of its name. Its votes stand until its deadline, since its holder may still count them; nothing is
// extended and nothing more is promised to it.
func (v *Voter) supersede(s *session) {
	v.count.Superseded++
	s.superseded = true
	if s.linked {
		v.refuse(s.conn, s.stream, vote.ReasonNameTaken)
		s.linked = false
	}
	for _, e := range s.sorted() {
		if e.serial == 0 {
			v.drop(e)
		}
	}
}

func (v *Voter) refuse(conn vote.Conn, stream vote.Stream, why vote.Reason) {
	v.count.Refused++
	v.send(conn, vote.Message{Kind: vote.KindRefused, Stream: stream, Reason: why})
}
