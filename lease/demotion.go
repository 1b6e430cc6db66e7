package lease

import (
	"maps"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// noteDemoted records that a request was demoted to a later round.
func (s *session) noteDemoted(e *entry) {
	if s.demoted == nil {
		s.demoted = make(map[vote.Number]struct{})
	}
	s.demoted[e.number] = struct{}{}
}

// demote has an entry without a vote, about to enter the queue of its key, go behind all requests
// that wait there now, and makes its next proposal timeout longer. If no other request waits, the
// entry stays as it is.
func (l *sessionLayer) demote(e *entry) {
	if e.key.next(l.now.Slow) == nil {
		return
	}
	l.count.ProposalTimeouts++
	e.round = e.key.round() + 1
	e.s.noteDemoted(e)
	e.proposalTimeout = min(2*e.proposalTimeout, e.s.ttl)
}

// resetRounds resets the demotion rounds of a session's requests to zero, now that the session's
// node reaches a majority. The requests wait by age alone again.
//
// Demotion is for requests that reach only a minority. Without the reset, voters would go on
// demoting requests in different rounds, each voter by its own count, long after every node reaches
// every other node again, and no request would have a majority of the votes at the same time.
func (v *Voter) resetRounds(s *session) {
	if len(s.demoted) == 0 {
		return
	}
	numbers := slices.Sorted(maps.Keys(s.demoted))
	s.demoted = nil
	v.startTask(&sessionTask{s, numbers, (*Voter).resetRound})
}

func (v *Voter) resetRound(e *entry) {
	switch {
	case e.round == 0:
		return
	case e.serial != 0:
		e.round = 0
		return
	case e.cold().taken != 0:
		e.round = 0 // the list of those that were told has no order
	default:
		v.dequeue(e)
		e.round = 0
		e.key.insert(e)
	}
	v.forgetTaken(e.key) // a writer may now be queued behind e
	v.grantVotes(e.key)
}
