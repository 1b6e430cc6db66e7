package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// Keys returns how many keys the voter remembers.
func (v *Voter) Keys() int { return len(v.keys.m) }

// Vote is whom a key is promised to, as a check or a picture wants it.
type Vote struct {
	Owner      vote.SessionID
	Number     vote.Number
	Mode       vote.Mode
	Serial     vote.Serial
	Slot       vote.Slot
	Token      vote.Token
	Held       bool // its owner has reported that it has won
	Ghost      bool // its request is gone, or its session
	Generation vote.Generation
	Deadline   vote.Instant // of the vote, or of the owner's session, on the voter's slow clock
}

// Votes returns whom the key is promised to, in order of the promises.
func (v *Voter) Votes(name vote.Key) []Vote {
	k := v.keys.m[name]
	if k == nil {
		return nil
	}
	votes := make([]Vote, 0, len(k.votes.all()))
	for _, e := range k.votes.all() {
		deadline := e.s.deadline
		if until := e.rare().until; until != 0 {
			deadline = until
		}
		votes = append(votes, Vote{e.s.id, e.number, e.mode, e.serial, e.slot, e.token, e.held, e.ghost, e.s.gen, deadline})
	}
	return votes
}

// Vote returns the first of the key's votes; false when it is promised to nobody.
func (v *Voter) Vote(name vote.Key) (Vote, bool) {
	votes := v.Votes(name)
	if len(votes) == 0 {
		return Vote{}, false
	}
	return votes[0], true
}

// Size is how much a voter keeps.
type Size struct {
	Sessions int
	Keys     int // remembered
	Requests int // waiting or with a vote
	Ghosts   int // votes that stand though their request or session is gone
}

// Size returns how much the voter keeps.
func (v *Voter) Size() Size {
	s := Size{Sessions: len(v.listed), Keys: len(v.keys.m)}
	for _, l := range v.listed {
		s.Requests += len(l.entries.m)
	}
	for _, of := range v.ghosts {
		for _, ghosts := range of {
			s.Ghosts += len(ghosts)
		}
	}
	return s
}

// Floor returns the token above which every key stands that the voter doesn't remember.
func (v *Voter) Floor() vote.Token { return v.tokens.floor }

// Watchers returns how many watches wait for something to happen.
func (v *Voter) Watchers() int { return len(v.news.watchers) }
