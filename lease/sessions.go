package lease

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// sessionTable has the sessions of a voter, and knows when the first session needs attention.
type sessionTable struct {
	byID          map[vote.SessionID]*session
	listed        []*session          // in order of creation: the order of a map decides nothing
	recent        [recentMax]*session // the sessions of the latest messages, by connection
	lastGen       vote.Generation     // of the newest session
	due           vote.Instant        // the earliest instant at which a session is due, unless moved
	moved         bool                // a session may be due later than before
	duplicateName vote.SessionID      // the newest incarnation refused as a duplicate name
}

// recentMax is how many connections a voter caches with their sessions. Finding a session without
// the cache requires hashing a name.
const recentMax = 16

func newSessionTable() sessionTable {
	return sessionTable{byID: make(map[vote.SessionID]*session), moved: true}
}

// find returns the session of an incarnation; nil if there is none.
func (t *sessionTable) find(id vote.SessionID) *session { return t.byID[id] }

// on returns the session of an incarnation with a message on a connection; nil if there is none.
func (t *sessionTable) on(conn vote.Conn, id vote.SessionID) *session {
	recent := &t.recent[conn%recentMax]
	if s := *recent; s != nil && s.id == id {
		return s
	}
	s := t.byID[id]
	*recent = s
	return s
}

// has reports whether a session has not been removed.
func (t *sessionTable) has(s *session) bool { return t.byID[s.id] == s }

// full reports whether there is no room for another session.
func (t *sessionTable) full() bool { return len(t.listed) >= maxSessions }

// add creates a session of an incarnation without a session.
func (t *sessionTable) add(id vote.SessionID) *session {
	t.lastGen++
	s := &session{id: id, gen: t.lastGen}
	t.byID[id] = s
	t.listed = append(t.listed, s)
	return s
}

// remove forgets a session.
func (t *sessionTable) remove(s *session) {
	delete(t.byID, s.id)
	for i := range t.recent {
		if t.recent[i] == s {
			t.recent[i] = nil
		}
	}
	t.listed = slices.DeleteFunc(t.listed, func(o *session) bool { return o == s })
	t.moved = true
}

// dueBy makes the table look at the sessions at the instant i or before.
func (t *sessionTable) dueBy(i vote.Instant) { t.due = min(t.due, i) }

// rescan has the next call of isDue look at all sessions: a session may be due later than before,
// and at the old instant the voter would wake up for nothing.
func (t *sessionTable) rescan() { t.moved = true }

// isDue reports whether a session is due now. Other timers fire all the time, for example for each
// forgotten key, so isDue scans the sessions only when the first session is due, or if a session
// may be due later than before. The caller then says with dueBy when each session is due next.
func (t *sessionTable) isDue(now vote.Instant) bool {
	if !t.moved && now < t.due {
		return false
	}
	t.moved, t.due = false, vote.Never
	for _, s := range t.listed {
		t.dueBy(s.due())
	}
	if now < t.due {
		return false
	}
	t.due = vote.Never
	return true
}

// contested reports whether another incarnation is a candidate for the session's name.
func (t *sessionTable) contested(s *session) bool {
	return slices.ContainsFunc(t.listed, func(c *session) bool { return c != s && c.claim.isCandidate() && c.id.Node == s.id.Node })
}
