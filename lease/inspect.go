package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// Keys returns how many keys the voter remembers.
func (v *Voter) Keys() int { return v.keys.number() }

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
func (v *Voter) Votes(name vote.Key) []Vote { return v.AppendVotes(nil, name) }

// AppendVotes appends the votes for the key to a slice, in the order in which they were promised.
func (v *Voter) AppendVotes(votes []Vote, name vote.Key) []Vote {
	k := v.keys.find(name)
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
func (v *Voter) Vote(name vote.Key) (Vote, bool) {
	votes := v.Votes(name)
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
func (v *Voter) Size() Size {
	s := Size{Sessions: len(v.sessions.listed), Keys: v.keys.number()}
	for _, l := range v.sessions.listed {
		s.Requests += len(l.entries.m)
	}
	for _, of := range v.votes.residuals {
		for _, residuals := range of {
			s.Residuals += len(residuals)
		}
	}
	return s
}

// MinToken returns the voter's minimum token: every key outside the voter's memory gets tokens
// above it.
func (v *Voter) MinToken() vote.Token { return v.tokens.min }

// Watchers returns how many watches wait for an event.
func (v *Voter) Watchers() int { return v.news.watchers.number }
