package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// tally is the tally of the votes for one request.
type tally struct {
	votes []countedVote // by place of the voter
	cold  *coldFields   // the cold fields; nil while none is needed
}

// countedVote has a requester's knowledge of one voter's vote for one request. Each held lease has
// a countedVote for each voter, so rarely used fields are in coldVote.
type countedVote struct {
	serial     vote.Serial // of the counted vote; zero for none
	token      vote.Token  // the token proposed or confirmed by the voter
	confirming vote.Token  // the token sent to the voter for confirmation
	slot       vote.Slot   // of the vote
	unfit      uint16      // the voter knows the key with this other number of permits; else zero
	sent       bool        // the voter was told of the request, on some stream
	busy       bool        // the voter is full
	released   bool        // the voter has confirmed the release
}

// stands reports whether the vote counts.
func (c *countedVote) stands() bool { return c.serial != 0 }

// drop stops counting a voter's vote.
func (t *tally) drop(place int) {
	c := &t.votes[place]
	c.serial, c.slot, c.token, c.confirming = 0, 0, 0, 0
	if x := t.coldOf(place); x != nil {
		x.validity, x.extending, x.extended = validity{}, false, false
	}
}

// voters returns the voters with counted votes.
func (t *tally) voters() Set {
	var s Set
	for i := range t.votes {
		if t.votes[i].stands() {
			s = s.With(i)
		}
	}
	return s
}

// token returns the token on which the tally settles: the largest token, up to limit, among the
// votes for a slot, or a larger token that was sent to a voter for confirmation. The voter may have
// confirmed the larger token by now, though the answer hasn't arrived; if the tally settled on a
// smaller token, this voter would be free to give the smaller token to another reader. The second
// result is the largest token of all these votes.
func (t *tally) token(slot vote.Slot, limit vote.Token) (token, all vote.Token) {
	for i := range t.votes {
		if v := &t.votes[i]; v.stands() && v.slot == slot {
			all = max(all, v.token)
			if v.token <= limit {
				token = max(token, v.token)
			}
			token = max(token, v.confirming)
		}
	}
	return token, all
}

// inSlot returns the voters with votes for a slot.
func (t *tally) inSlot(slot vote.Slot) Set {
	var s Set
	for i := range t.votes {
		if t.votes[i].stands() && t.votes[i].slot == slot {
			s = s.With(i)
		}
	}
	return s
}

// taken returns the voters that named the newest lease among all leases named. A voter that named
// an older lease has not yet learned of this lease's end, or of the newest lease, and will report
// again. Reports about different leases are not added. The same holds where several leases together
// keep a request from the key: the newest lease of all readers, or of all holders of permits,
// stands for these leases.
func (t *tally) taken() (s Set) {
	if t.cold == nil {
		return 0
	}
	var newest vote.Token
	for i := range t.votes {
		taken := t.cold.votes[i].taken
		if taken == 0 || t.votes[i].stands() || taken < newest {
			continue
		}
		if taken > newest {
			newest, s = taken, 0
		}
		s = s.With(i)
	}
	return s
}

// confirmed returns the voters with votes for the slot under the token; a vote under another token
// doesn't count. If the largest proposal were taken without confirmation by the other voters, a
// later majority of voters with smaller proposals could propose less again.
func (t *tally) confirmed(token vote.Token, slot vote.Slot) Set {
	var s Set
	for i := range t.votes {
		if v := &t.votes[i]; v.stands() && v.token == token && v.slot == slot {
			s = s.With(i)
		}
	}
	return s
}

// released returns the voters without any trace of the request.
func (t *tally) released() Set {
	var s Set
	for i := range t.votes {
		if t.votes[i].released {
			s = s.With(i)
		}
	}
	return s
}
