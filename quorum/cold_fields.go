package quorum

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// coldFields has the cold fields of a request: options besides the key, and state needed while
// votes come and go. An uncontended lease has none of these, so that a million such leases fit into
// a few hundred megabytes. A request gets its cold fields when a field must be set, and keeps them.
//
// The accessors below handle a request without cold fields.
type coldFields struct {
	opts             RequestOptions // for a request with more than a key and a mode
	version          uint64         // of the value
	confirmedVersion uint64         // the newest version confirmed by a majority
	// With a minimum hold: when the votes first agreed; zero before.
	agreed vote.Instant
	// The votes of a majority are to last until then, as requested by Extend; zero without such a
	// request.
	extendTo vote.Instant
	// Since when the length of a lease that isn't renewed counts: the grant, or the last Extend.
	lengthFrom vote.Instant
	// When the node ends the lease by itself, on the fast clock; zero if never, and before the
	// grant.
	ends vote.Instant
	// With a length: when the votes are extended next; zero if they aren't.
	extendAt vote.Instant
	lengthAt uint32     // the index in Requester.lengths, while extendAt isn't zero
	revokes  uint32     // how many revoke requests were reported to the shell
	votes    []coldVote // by place of the voter
}

// coldVote has the cold fields of a voter's vote; see countedVote.
type coldVote struct {
	// The newest vote given back to this incarnation of the voter: this vote and all older votes
	// are void.
	yielded     vote.Serial
	yieldStream vote.Stream // the stream on which the vote was given back
	yieldAt     uint64      // the number of the yield message on the stream
	// The token of the newest lease that the voter reported as won; zero for none.
	taken    vote.Token
	validity validity // until when the vote holds, if the request has a length of its own
	noted    uint64   // the newest version of the value confirmed by the voter
	// The stream on which the release was sent; zero if the next sync will tell the voter.
	relStream  vote.Stream
	relAt      uint64      // the number of the release message on the stream
	relSerial  vote.Serial // the vote given back by the release
	barred     []vote.Slot // slots that the voter was asked for and didn't give
	revokes    uint32      // how many revoke requests the voter has passed on
	wantedSlot vote.Slot   // the slot requested from the voter in place of another; zero for none
	extending  bool        // the voter was asked to extend the vote
	extended   bool        // the voter has extended the vote at least once, under any electorate
}

// coldOf returns the cold fields of a voter's vote; nil if there are none.
func (t *tally) coldOf(place int) *coldVote {
	if t.cold == nil {
		return nil
	}
	return &t.cold.votes[place]
}

// yielded returns the newest vote that was given back to a voter.
func (t *tally) yielded(place int) vote.Serial {
	if t.cold == nil {
		return 0
	}
	return t.cold.votes[place].yielded
}

// wantedSlot returns the slot requested from a voter in place of another; zero for none.
func (t *tally) wantedSlot(place int) vote.Slot {
	if t.cold == nil {
		return 0
	}
	return t.cold.votes[place].wantedSlot
}

// isBarred reports whether a voter was asked for a slot and didn't give it.
func (t *tally) isBarred(place int, slot vote.Slot) bool {
	return t.cold != nil && slices.Contains(t.cold.votes[place].barred, slot)
}

// releasedOn reports whether the release was sent to a voter on a stream.
func (t *tally) releasedOn(place int, s vote.Stream) bool {
	x := t.coldOf(place)
	return x != nil && x.relStream == s
}

// spec returns the voters' part of the request spec.
func (r *request) spec(now vote.Instant) vote.Spec {
	if r.cold == nil {
		return vote.Spec{Key: r.key, Mode: r.mode, Try: r.try}
	}
	w := r.cold.opts.Spec
	w.Key, w.Mode, w.Try, w.EndsAfter = r.key, r.mode, r.try, r.endsAfter(now)
	return w
}

// endsAfter returns how much longer the lease lasts before the node ends it, or how long from the
// grant; zero if the node doesn't end the lease. A voter counts from when it hears of the lease.
func (r *request) endsAfter(now vote.Instant) time.Duration {
	switch {
	case r.cold == nil:
		return 0
	case r.cold.ends == 0:
		return r.cold.opts.EndsAfter
	default:
		return max(r.cold.ends.Sub(now), 1) // zero would say that the node doesn't end the lease
	}
}

// length returns how long the votes last without a message; zero means as long as the session.
func (r *request) length() time.Duration {
	if r.cold == nil {
		return 0
	}
	return r.cold.opts.Length
}

// minHold returns the least time from the grant for which the key is kept from others.
func (r *request) minHold() time.Duration {
	if r.cold == nil {
		return 0
	}
	return r.cold.opts.MinHold
}

// fixed reports whether the lease ends by its time.
func (r *request) fixed() bool { return r.cold != nil && r.cold.opts.Fixed }

// version returns the version of the value; zero if there has never been a value.
func (r *request) version() uint64 {
	if r.cold == nil {
		return 0
	}
	return r.cold.version
}

// simple reports whether a request spec has nothing but a key and a mode.
func (o *RequestOptions) simple() bool {
	return o.Permits == 0 && o.Beside == 0 && o.Length == 0 && o.Delay == 0 && o.MinHold == 0 && o.EndsAfter == 0 && !o.Fixed && o.Value == nil && !o.Revoke && o.Reason == ""
}
