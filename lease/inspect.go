package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// Keys returns how many keys the voter remembers.
func (l *voteLayer) Keys() int { return l.keys.number() }

// Vote is a vote for a key, as seen by checks and pictures.
type Vote struct {
	Owner      vote.SessionID
	Number     vote.Number
	Mode       vote.Mode
	Serial     vote.Serial
	Slot       vote.Slot
	Token      vote.Token
	Held       bool // the owner has reported the request as won
	Residual   bool // a residual vote: the request or its session is gone
	Generation vote.Generation
	Deadline   vote.Instant // of the vote, or of the owner's session, on the voter's slow clock
}

// Votes returns the votes for the key, in the order in which they were promised.
func (l *voteLayer) Votes(name vote.Key) []Vote { return l.AppendVotes(nil, name) }

// AppendVotes appends the votes for the key to a slice, in the order in which they were promised.
func (l *voteLayer) AppendVotes(votes []Vote, name vote.Key) []Vote {
	k := l.keys.find(name)
	if k == nil {
		return votes
	}
	for _, e := range k.votes.all() {
		deadline := e.s.deadline
		if until := e.cold().until; until != 0 {
			deadline = until
		}
		votes = append(votes, Vote{e.s.id, e.number, e.mode, e.serial, e.slot, e.token, e.held, e.residual, e.s.gen, deadline})
	}
	return votes
}

// Vote returns the first vote for the key; false if there is none.
func (l *voteLayer) Vote(name vote.Key) (Vote, bool) {
	votes := l.Votes(name)
	if len(votes) == 0 {
		return Vote{}, false
	}
	return votes[0], true
}

// Size is how much a voter keeps in memory.
type Size struct {
	Sessions  int
	Keys      int // remembered
	Requests  int // waiting or with a vote
	Residuals int // residual votes: the request or its session is gone
}

// Size returns how much the voter keeps in memory.
func (l *voteLayer) Size() Size {
	s := Size{Sessions: len(l.sessions.listed), Keys: l.keys.number()}
	for _, of := range l.sessions.listed {
		s.Requests += len(of.entries.m)
	}
	for _, of := range l.votes.residuals {
		for _, residuals := range of {
			s.Residuals += len(residuals)
		}
	}
	return s
}

// MinToken returns the voter's minimum token: every key outside the voter's memory gets tokens
// above it.
func (l *voteLayer) MinToken() vote.Token { return l.tokens.min }

// Watchers returns how many watches wait for an event.
func (l *voteLayer) Watchers() int { return l.news.watchers.number }
