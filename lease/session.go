package lease

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// session is one life of one node at this voter. Time lives here and nowhere else: every vote and every place in a queue
// lasts as long as its session.
type session struct {
	id       vote.SessionID
	gen      vote.Generation
	ttl      time.Duration
	deadline vote.Instant // of the slow clock; rounded up by measuring from when the refresh arrived
	tenure   time.Duration
	reaches  bool // its node says that it reaches a majority
	passed   int  // how many requests were put into a later round since they were last forgiven
	entries  table[vote.Number, *entry]
	ledger   vote.Ledger

	// The current stream. What is sent while stating or muted would be void or said twice: the answer says it all.
	conn       vote.Conn
	stream     vote.Stream
	linked     bool
	stating    bool // the statement isn't complete or hasn't taken effect
	muted      bool // the answer is being made
	stated     []vote.Entry
	complete   bool         // the statement's end mark has come
	statedSent vote.Instant // echo

	processed, pushed, received uint64
	mark                        uint64       // pushes up to this one should be acknowledged soon
	markAt                      vote.Instant // since when

	candidate  bool         // another life of the name is being probed; this one waits
	answered   bool         // the candidate has answered a probe, too
	spoke      bool         // the candidate has said more than its statement
	probeUntil vote.Instant // when the other is taken for dead
	superseded bool         // another life of the name has taken over: its votes stand to its deadline, nothing is extended
}

// ready reports whether a push would reach the session's requester on the current stream.
func (s *session) ready() bool { return s.linked && !s.stating && !s.superseded }

// probeFor is how long the older life of a name may take to answer a probe: many round trips, and a quarter of its session, so
// that the newer one's statement is answered before it gives up waiting.
func probeFor(ttl time.Duration) time.Duration { return min(ttl/4, time.Second) }

// unanswered is how long pushes may go unacknowledged before the stream is closed: a one-way cut must not pin keys.
func unanswered(ttl time.Duration) time.Duration { return ttl / 2 }

// open begins a stream of a session, and the session if there is none.
func (v *Voter) open(conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.TTL < vote.MinTTL || m.TTL > v.cfg.MaxTTL {
		v.refuse(conn, m.Stream, vote.ReasonTTL)
		return
	}
	s := v.sessions[from]
	switch {
	case s == nil:
		if len(v.listed) >= MaxSessions {
			v.closeConn(conn)
			return
		}
		if m.Stream <= v.ghosts.stream(from) {
			return // a word of an earlier stream, of a session that has ended; what it doesn't list may be what was promised since
		}
		candidate, ok := v.admit(conn, from, m.Stream)
		if !ok {
			return
		}
		v.lastGen++
		s = &session{id: from, gen: v.lastGen, candidate: candidate}
		s.deadline = v.now.Slow.Add(m.TTL)
		v.sessions[from] = s
		v.listed = append(v.listed, s)
		if candidate {
			s.probeUntil = v.now.Slow.Add(probeFor(m.TTL))
			v.at(s.probeUntil)
		}
	case s.superseded:
		v.refuse(conn, m.Stream, vote.ReasonNameTaken)
		return
	case m.Stream <= s.stream:
		return // a word of an earlier stream
	case s.linked && s.conn != conn:
		v.closeConn(s.conn)
	}
	s.ttl = m.TTL
	s.setTenure(m.RTT)
	s.reaches = m.RTT > 0
	s.answered = s.answered && s.conn == conn
	s.spoke = false
	s.conn, s.stream, s.linked = conn, m.Stream, true
	s.stating, s.complete, s.stated, s.statedSent = true, false, nil, m.Sent
	s.processed, s.pushed, s.received, s.mark = 0, 0, 0, 0
	v.moved = true
	if s.candidate || v.contested(s) {
		// A probe that named an earlier stream is void.
		v.say(conn, vote.KindProbe).Stream = s.stream
	}
	v.at(s.deadline)
}

func (s *session) setTenure(rtt time.Duration) {
	if rtt > 0 {
		s.tenure = min(max(tenureTrips*min(rtt, s.ttl), MinTenure), s.ttl)
	} else if s.tenure == 0 {
		s.tenure = max(s.ttl/RTTGuess, MinTenure)
	}
}

// RTTGuess is the share of its TTL that a session's first tenure lasts while its requester doesn't know its round trip yet.
const RTTGuess = 8

// refresh extends the session and acknowledges. Its cost doesn't depend on how much the session holds.
func (v *Voter) refresh(s *session, m *vote.Message) {
	if s.stating || v.broken {
		return
	}
	if m.Received > s.pushed {
		v.unknown(s.conn, s.stream) // it counts what we never said
		return
	}
	if s.due() <= v.sessionsDue {
		v.moved = true
	}
	s.deadline = max(s.deadline, v.now.Slow.Add(s.ttl))
	s.setTenure(m.RTT)
	if s.reaches = m.RTT > 0; s.reaches {
		v.forgive(s)
	}
	s.received = max(s.received, m.Received)
	if s.mark != 0 && s.received >= s.mark {
		s.mark = 0
		v.expectReceipt(s)
	}
	a := v.say(s.conn, vote.KindAck)
	a.Stream, a.Sent, a.Life, a.Generation = s.stream, m.Sent, v.cfg.Self.Life, s.gen
	a.Processed, a.Pushed, a.Count, a.Hash = s.processed, s.pushed, s.ledger.Count, s.ledger.Hash
	a.Quiet, a.Wall, a.Clock, a.Elected = v.Quiet(), v.now.Wall, v.now.Slow, v.elected.Version
}

// push sends an ordered message about a request to the session's requester, and returns it as say does. Where it can't be heard it isn't sent:
// the answer to the next statement says what stands then.
func (v *Voter) push(s *session, kind vote.Kind, n vote.Number) *vote.Message {
	if !s.ready() || s.muted {
		v.unsaid = vote.Message{}
		return &v.unsaid
	}
	s.pushed++
	v.expectReceipt(s)
	m := v.say(s.conn, kind)
	m.Stream, m.Number = s.stream, n
	return m
}

// expectReceipt notes that what was pushed so far should be acknowledged in time.
func (v *Voter) expectReceipt(s *session) {
	if s.mark == 0 && s.pushed > s.received {
		s.mark, s.markAt = s.pushed, v.now.Slow
		at := s.markAt.Add(unanswered(s.ttl))
		v.sessionsDue = min(v.sessionsDue, at)
		v.at(at)
	}
}

func (v *Voter) unlink(s *session) {
	s.linked, v.moved = false, true
	if s.candidate {
		v.remove(s)
	}
}

// due returns when there is something to do about the session, if it says nothing until then.
func (s *session) due() vote.Instant {
	due := s.deadline
	if s.candidate {
		due = min(due, s.probeUntil)
	}
	if s.linked && s.mark != 0 {
		due = min(due, s.markAt.Add(unanswered(s.ttl)))
	}
	return due
}

// advanceSessions ends what is past its time. Other timers fire all the time, at each key that is forgotten for one, so it looks at all sessions only
// if it doesn't know when the first of them is due: sessionsDue says so, unless moved says that one was put off since. Without moved it would
// wake up for nothing.
func (v *Voter) advanceSessions() {
	if v.moved || v.now.Slow >= v.sessionsDue {
		v.moved, v.sessionsDue = false, vote.Never
		for _, s := range v.listed {
			v.sessionsDue = min(v.sessionsDue, s.due())
		}
		if v.now.Slow >= v.sessionsDue {
			v.sessionsDue = vote.Never
			v.endSessions()
		}
	}
	v.at(v.sessionsDue)
}

func (v *Voter) endSessions() {
	now := v.now.Slow
	for _, s := range slices.Clone(v.listed) {
		switch {
		case v.sessions[s.id] != s:
			continue // removed meanwhile
		case now >= s.deadline:
			v.count.Expired++
			conn, stream, linked := s.conn, s.stream, s.linked && !s.superseded
			v.remove(s)
			if linked {
				v.unknown(conn, stream)
			}
			continue
		case s.candidate && now >= s.probeUntil:
			v.takeOver(s)
		case s.linked && s.mark != 0 && now >= s.markAt.Add(unanswered(s.ttl)):
			v.closeConn(s.conn)
			v.unlink(s)
		}
		v.sessionsDue = min(v.sessionsDue, s.due())
	}
}

// remove ends a session with all that it has: its votes are free and its places in queues are gone.
func (v *Voter) remove(s *session) {
	delete(v.sessions, s.id)
	v.forget(s)
	v.listed = slices.DeleteFunc(v.listed, func(t *session) bool { return t == s })
	s.linked, v.moved = false, true
	for _, e := range s.sorted() {
		v.drop(e, true)
	}
}

// sorted returns the session's entries in order of their numbers, so that nothing depends on the order of a map.
func (s *session) sorted() []*entry {
	all := make([]*entry, 0, len(s.entries.m))
	for _, e := range s.entries.m {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.number, b.number) })
	return all
}
