package quorum

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// rare is what a held lease for which nobody contends doesn't have: what was asked for besides the key, and what is known while votes come and go. A
// million such leases are to fit into a few hundred megabytes. It is made when something has to be noted in it, and stays with the request.
//
// It is read through the accessors below, which know that it may be missing.
type rare struct {
	ask      Ask          // if it asks for more than a key and a mode
	version  uint64       // of the value
	heard    uint64       // the newest version that a majority has noted
	extendAt vote.Instant // when the votes of a request with a length of its own are extended next; zero if they aren't
	urges    uint32       // how often the key was wanted back, as far as was told
	votes    []rareVote   // one place for each voter
}

// rareVote is the part of counted that is rare.
type rareVote struct {
	yielded     vote.Serial // the newest vote given back in this life of the voter: it and all older ones are void
	yieldStream vote.Stream // the stream on which it was given back
	yieldAt     uint64      // the number of that word on the stream
	taken       vote.Token  // of the newest lease that it told has won; zero for none
	covered     cover       // until when the vote stands, if the request has a length of its own
	noted       uint64      // the newest version of the value that it has
	relStream   vote.Stream // the stream on which the release was sent; zero when the next statement will say it
	relAt       uint64      // the release's number on that stream
	relSerial   vote.Serial // the vote that it gave back
	barred      []vote.Slot // that it was asked for and didn't give
	urges       uint32      // how often it has passed on that the key is wanted back
	want        vote.Slot   // the slot that the voter was asked for instead of another; zero for none
	extending   bool        // the voter was asked to extend the vote
	extended    bool        // it has, at least once; under whatever electorate it goes by
}

// rareOf returns what is rare of a voter's vote; nil if there is nothing.
func (b *ballot) rareOf(place int) *rareVote {
	if b.rare == nil {
		return nil
	}
	return &b.rare.votes[place]
}

// yielded returns the newest vote that was given back to a voter.
func (b *ballot) yielded(place int) vote.Serial {
	if b.rare == nil {
		return 0
	}
	return b.rare.votes[place].yielded
}

// want returns the slot that a voter was asked for instead of another; zero for none.
func (b *ballot) want(place int) vote.Slot {
	if b.rare == nil {
		return 0
	}
	return b.rare.votes[place].want
}

// bars reports whether a voter was asked for a slot and didn't give it.
func (b *ballot) bars(place int, slot vote.Slot) bool {
	return b.rare != nil && slices.Contains(b.rare.votes[place].barred, slot)
}

// releasedOn reports whether the release was sent to a voter on a stream.
func (b *ballot) releasedOn(place int, s vote.Stream) bool {
	x := b.rareOf(place)
	return x != nil && x.relStream == s
}

// wish returns what the voters are asked for.
func (r *request) wish() vote.Wish {
	if r.rare == nil {
		return vote.Wish{Key: r.key, Mode: r.mode, Try: r.try}
	}
	w := r.rare.ask.Wish
	w.Key, w.Mode, w.Try = r.key, r.mode, r.try
	return w
}

// length returns how long the votes last without a word; zero for as long as the session.
func (r *request) length() time.Duration {
	if r.rare == nil {
		return 0
	}
	return r.rare.ask.Length
}

// fixed reports whether the lease ends by its time.
func (r *request) fixed() bool { return r.rare != nil && r.rare.ask.Fixed }

// version returns the version of the value; zero if there has never been one.
func (r *request) version() uint64 {
	if r.rare == nil {
		return 0
	}
	return r.rare.version
}

// simple reports whether an ask is for a key and a mode, and nothing else.
func (a *Ask) simple() bool {
	return a.Permits == 0 && a.Beside == 0 && a.Length == 0 && a.Delay == 0 && a.MinHold == 0 && !a.Fixed && a.Value == nil && !a.Urge && a.Why == ""
}
