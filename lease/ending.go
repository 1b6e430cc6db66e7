package lease

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// ending is the task of removing from their keys the entries left behind by a session that has
// ended; or, if another incarnation of the same name has taken over, only the session's places in
// queues, since the votes stand to the session's deadline.
//
// The session itself is over at once, however many entries are left: they get no more messages or
// promises, and the node is told that the session is unknown. The entries only keep keys from other
// requests a little longer than necessary, until the task has reached the keys, or until another
// request needs one of the keys: see freeOfEnded. So a half-done ending can't break a promise.
type ending struct {
	s    *session
	next int  // index in s.all of the first unprocessed entry
	over bool // the session is over; otherwise superseded
}

// leaves reports whether the session's waiting requests are to leave their queues.
func (s *session) leaves() bool { return s.claim >= claimSuperseded }

// isOver reports whether the session has ended.
func (s *session) isOver() bool { return s.claim == claimEnded }

// remove ends a session with all its entries: the votes are free and the places in queues are gone.
func (v *Voter) remove(s *session) {
	v.sessions.remove(s)
	s.become(claimEnded)
	s.moveTo(streamNone)
	v.lapsed()
	v.leave(&ending{s: s, over: true})
}

func (v *Voter) leave(t *ending) {
	if len(t.s.entries.m) > 0 {
		v.endings++
		v.startTask(t)
	}
}

func (t *ending) run(v *Voter) (done bool) {
	for s := t.s; t.next < len(s.all); t.next++ {
		if v.exhausted() {
			return false
		}
		v.spend(1)
		e := s.all[t.next]
		if e != nil && e.key != nil && (t.over || e.serial == 0) {
			if !v.clear(e.key, freed{}) {
				return false
			}
			e = s.all[t.next]
		}
		if e != nil && e.key == nil {
			s.all[t.next] = nil
			if !t.over { // otherwise the whole table is dropped at the end
				s.entries.take(e.number)
			}
			v.spares.discard(e)
		}
	}
	v.endings--
	if t.over {
		t.s.all, t.s.entries = nil, shrinkingMap[vote.Number, *entry]{}
		v.ended(t.s.id)
	}
	return true
}

// ended applies the sync of a newer session of the same incarnation, which waited for the cleanup
// after the earlier session: the newer session's requests must find the votes that outlast the
// earlier session.
func (v *Voter) ended(id vote.SessionID) {
	s := v.sessions.find(id)
	if s == nil || s.claim != claimOwner || v.ending(id) {
		return
	}
	v.goOn(s)
}

// ending reports whether an earlier session of the same incarnation still has entries left.
func (w *work) ending(id vote.SessionID) bool { return w.endingOf(id) != nil }

func (w *work) endingOf(id vote.SessionID) *session {
	if w.endings == 0 {
		return nil
	}
	for _, t := range w.tasks {
		if t, ok := t.(*ending); ok && t.over && t.s.id == id && t.s.all != nil {
			return t.s
		}
	}
	return nil
}

// freeOfEnded removes the entries of ended sessions from a key about to be used. It checks only the
// votes and the front of the queue; entries further back are in no request's way.
func (v *Voter) freeOfEnded(k *key, by freed) {
	if v.endings == 0 {
		return
	}
	v.spend(len(k.votes.all()) / scanned)
	over := func(e *entry) bool { return e.s.isOver() && !e.residual }
	queue := k.queue.all()
	if slices.ContainsFunc(k.votes.all(), over) || len(queue) > 0 && queue[0].s.leaves() {
		v.clear(k, by)
	}
}

// clear removes all entries of ended sessions from a key, and then schedules the key, once:
// scheduling it after each removal would take time quadratic in the number of entries. clear makes
// a single pass over the key's queue; the order of the queue leaves no other way. The rest of the
// work for each removed entry is left to the task, which finds the entry without a key.
//
// Where thousands of readers share the key, clear may end with the work half done, and reports that
// it isn't done: the votes left keep writers from the key a little longer.
func (v *Voter) clear(k *key, by freed) (done bool) {
	votes := k.votes.all()
	left := 0
	for i, e := range votes {
		if e.s.isOver() && !e.residual {
			if v.exhausted() {
				left += copy(votes[left:], votes[i:])
				k.votes.cut(left)
				v.spend(left / shifted)
				return false
			}
			v.spend(1)
			g := v.outlives(e)
			v.part(e)
			if e = g; e == nil {
				continue
			}
		}
		votes[left] = e
		left++
	}
	k.votes.cut(left)
	if k.votes.empty() {
		k.forgetEndedShared()
	}
	queue := k.queue.all()
	left = 0
	for _, e := range queue {
		if e.s.leaves() {
			if v.news.on {
				v.reportEnd(e, true)
			}
			v.part(e)
			continue
		}
		queue[left] = e
		left++
	}
	v.spend(1 + (len(queue)+len(k.answeredTries()))/scanned)
	k.queue.cut(left)
	for _, e := range slices.Backward(k.answeredTries()) { // another one takes the place of one that leaves
		if e.s.leaves() {
			if v.news.on {
				v.reportEnd(e, true)
			}
			k.leaveAnswered(e)
			v.part(e)
		}
	}
	v.forgetTaken(k)
	v.scheduleFreed(k, by)
	if k.idleNow() {
		v.forgetLater(k)
	}
	return true
}

// part takes an entry that has left its key out of the key's counts.
func (l *sessionLayer) part(e *entry) {
	e.key.count(e, -1)
	e.key = nil
}

// outlives takes back the vote of a session that is over; or, if the vote has to stand for a while,
// returns the residual vote to put in its place.
func (v *Voter) outlives(e *entry) *entry {
	k := e.key
	until := v.stays(e, true)
	v.reportEnd(e, true)
	if until > v.now.Slow {
		return v.residualOf(e, until, true)
	}
	if e.held && e.mode == vote.Exclusive {
		k.over = max(k.over, e.token)
	}
	if e.mode != vote.Exclusive {
		k.noteEndedShared(e.token)
	}
	e.voteless()
	return nil
}

// depart takes an entry that has left its key out of the counts of its session and its key.
func (l *sessionLayer) depart(e *entry) {
	s := e.s
	e.key.count(e, -1)
	s.entries.take(e.number)
	s.digest = s.digest.Minus(vote.DigestOfRequest(e.number))
	delete(s.demoted, e.number)
	delete(s.lapsed, e.number)
	// A task goes through the list in order, and must neither miss an entry nor meet another entry
	// that reuses the memory of e
	if s.leaves() {
		s.all[e.at] = nil
		return
	}
	last := len(s.all) - 1
	moved := s.all[last]
	s.all[e.at], moved.at = moved, e.at
	s.all[last] = nil
	s.all = s.all[:last]
	if c := cap(s.all); c > roomy && last <= c/4 {
		s.all = append(make([]*entry, 0, c/2), s.all...)
	}
}
