package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// Keys returns how many keys the voter remembers.
func (v *Voter) Keys() int { return len(v.keys) }

// Vote is whom a key is promised to, as a check or a picture wants it.
type Vote struct {
	Owner      vote.SessionID
	Number     vote.Number
	Serial     vote.Serial
	Token      vote.Token
	Held       bool // its owner has reported that it has won
	Generation vote.Generation
	Deadline   vote.Instant // of the owner's session, on the voter's slow clock
}

// Vote returns whom the key is promised to; false when it is promised to nobody.
func (v *Voter) Vote(name vote.Key) (Vote, bool) {
	k := v.keys[name]
	if k == nil || k.vote == nil {
		return Vote{}, false
	}
	e := k.vote
	return Vote{e.s.id, e.number, e.serial, e.token, e.held, e.s.gen, e.s.deadline}, true
}

// Size is how much a voter keeps.
type Size struct {
	Sessions int
	Keys     int // remembered
	Requests int // waiting or with a vote
}

// Size returns how much the voter keeps.
func (v *Voter) Size() Size {
	s := Size{Sessions: len(v.listed), Keys: len(v.keys)}
	for _, l := range v.listed {
		s.Requests += len(l.entries)
	}
	return s
}

// Floor returns the token above which every key stands that the voter doesn't remember.
func (v *Voter) Floor() vote.Token { return v.tokens.floor }
