package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// ballot is the count of the votes for one request.
type ballot struct {
	votes []counted // one place for each voter
}

// counted is what a requester knows of one voter's vote for one request.
type counted struct {
	serial      vote.Serial // of the vote that counts; zero when none does
	yielded     vote.Serial // the newest vote given back in this life of the voter: it and all older ones are void
	yieldStream vote.Stream // the stream on which it was given back
	yieldAt     uint64      // the number of that word on the stream
	slot        vote.Slot   // of the vote
	want        vote.Slot   // the slot that the voter was asked for instead of another; zero for none
	barred      []vote.Slot // that it was asked for and didn't give
	token       vote.Token  // what the voter has proposed or confirmed
	asking      vote.Token  // the token that it was asked to confirm
	covered     cover       // until when the vote stands, if the request has a length of its own
	extending   bool        // the voter was asked to extend it
	extended    bool        // it has, at least once; under whatever electorate it goes by
	asked       bool        // the voter has heard of the request, on some stream
	taken       vote.Token  // of the newest lease that it told has won; zero for none
	busy        bool        // it is full
	unfit       uint16      // it knows the key with so many permits; zero when that is none of its complaints
	noted       uint64      // the newest version of the value that it has
	urges       uint32      // how often it has passed on that the key is wanted back
	released    bool        // it has confirmed the release
	relStream   vote.Stream // the stream on which the release was sent; zero when the next statement will say it
	relAt       uint64      // the release's number on that stream
	relSerial   vote.Serial // the vote that it gave back
}

// stands reports whether the vote counts.
func (c *counted) stands() bool { return c.serial != 0 }

// drop stops counting the vote.
func (c *counted) drop() {
	c.serial, c.slot, c.token, c.asking, c.covered, c.extending, c.extended = 0, 0, 0, 0, cover{}, false, false
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
// that it is over, so their words don't add up with the others'. Several leases together may keep a request from a shared key or from all permits, so
// there all words count; a TryLock may then fail though something was free for a moment.
func (b *ballot) taken(m vote.Mode) (s Set) {
	var newest vote.Token
	for i := range b.votes {
		if !b.votes[i].stands() {
			newest = max(newest, b.votes[i].taken)
		}
	}
	for i := range b.votes {
		if newest != 0 && (b.votes[i].taken == newest || m != vote.Exclusive && b.votes[i].taken != 0) && !b.votes[i].stands() {
			s = s.With(i)
		}
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
