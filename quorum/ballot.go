package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// ballot is the count of the votes for one request.
type ballot struct {
	votes []counted // one place for each voter
	rare  *rare     // nil while there is nothing of the kind
}

// counted is what a requester knows of one voter's vote for one request. There is one for each voter of each lease that is held, so whatever most
// requests never need is in rareVote.
type counted struct {
	serial   vote.Serial // of the vote that counts; zero when none does
	token    vote.Token  // what the voter has proposed or confirmed
	asking   vote.Token  // the token that it was asked to confirm
	slot     vote.Slot   // of the vote
	unfit    uint16      // it knows the key with so many permits; zero when that is none of its complaints
	asked    bool        // the voter has heard of the request, on some stream
	busy     bool        // it is full
	released bool        // it has confirmed the release
}

// stands reports whether the vote counts.
func (c *counted) stands() bool { return c.serial != 0 }

// drop stops counting a voter's vote.
func (b *ballot) drop(place int) {
	c := &b.votes[place]
	c.serial, c.slot, c.token, c.asking = 0, 0, 0, 0
	if x := b.rareOf(place); x != nil {
		x.covered, x.extending, x.extended = cover{}, false, false
	}
}

// set returns the voters whose votes count.
func (b *ballot) set() Set {
	var s Set
	for i := range b.votes {
		if b.votes[i].stands() {
			s = s.With(i)
		}
	}
	return s
}

// token returns the largest token among the votes for a slot: the one that the ballot settles on. A vote that was asked for a token may have it by now,
// though its answer hasn't come: with a smaller one the voter would be free to give that to another reader.
func (b *ballot) token(slot vote.Slot) vote.Token {
	var t vote.Token
	for i := range b.votes {
		if b.votes[i].stands() && b.votes[i].slot == slot {
			t = max(t, b.votes[i].token, b.votes[i].asking)
		}
	}
	return t
}

// inSlot returns the voters whose votes are for a slot.
func (b *ballot) inSlot(slot vote.Slot) Set {
	var s Set
	for i := range b.votes {
		if b.votes[i].stands() && b.votes[i].slot == slot {
			s = s.With(i)
		}
	}
	return s
}

// taken returns the voters that told of the newest lease that any of them told of. Those that told of an older one haven't heard yet
// that it is over, or of the newest; they tell again when they have, so their words don't add up with the others'. The same where several leases together keep a request from the key:
// of all readers, or holders of permits, the newest speaks for them.
func (b *ballot) taken() (s Set) {
	if b.rare == nil {
		return 0
	}
	var newest vote.Token
	for i := range b.votes {
		taken := b.rare.votes[i].taken
		if taken == 0 || b.votes[i].stands() || taken < newest {
			continue
		}
		if taken > newest {
			newest, s = taken, 0
		}
		s = s.With(i)
	}
	return s
}

// confirmed returns the voters whose votes for the slot have the token: a vote for another token doesn't count. Taking the largest proposal
// without asking the others to confirm it would let a later majority, out of those that proposed less, propose less again.
func (b *ballot) confirmed(t vote.Token, slot vote.Slot) Set {
	var s Set
	for i := range b.votes {
		if v := &b.votes[i]; v.stands() && v.token == t && v.slot == slot {
			s = s.With(i)
		}
	}
	return s
}

// released returns the voters that have nothing of the request any more.
func (b *ballot) released() Set {
	var s Set
	for i := range b.votes {
		if b.votes[i].released {
			s = s.With(i)
		}
	}
	return s
}
