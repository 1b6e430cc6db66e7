package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// floor is what a voter knows of tokens beyond the keys it remembers.
type floor struct {
	floor vote.Token // every key that isn't remembered had no larger token here
	top   vote.Token // no key, remembered or not, had a larger one here
}

// saneToken is the largest token that a voter takes from others. Clocks reach it in 146,000 years; whoever names a larger one is broken,
// and must not use up the tokens of everyone.
const saneToken = vote.MaxToken / 2

// propose returns the token that a vote proposes: larger than all that the key had here. The bid comes first, cut to a little
// above this voter's own clock, so that a requester whose clock stands at the year 2100 runs away with nothing.
func (v *Voter) propose(k *key, bid vote.Token) vote.Token {
	bid = min(bid, vote.TokenAt(v.now.Wall+vote.Micros(vote.Skew.Microseconds())))
	return max(bid, k.highest.Next(), v.tokens.floor.Next())
}

// raise notes a token that was proposed, confirmed or re-stated.
func (v *Voter) raise(k *key, t vote.Token) {
	k.highest = max(k.highest, t)
	v.tokens.top = max(v.tokens.top, t)
}

// raiseFloor takes in what other voters, or the clock as a last resort, know of tokens.
func (v *Voter) raiseFloor(t vote.Token) {
	v.tokens.floor = max(v.tokens.floor, t)
	v.tokens.top = max(v.tokens.top, t)
}

// resting is when a key that nobody wanted or held is looked at again.
type resting struct {
	key *key
	at  vote.Instant
}

// rest lets a key that nobody wants or holds be forgotten in a while.
func (v *Voter) rest(k *key) {
	k.idleAt = v.now.Slow.Add(vote.Skew)
	if !k.listed {
		k.listed = true
		v.idle = append(v.idle, resting{k, k.idleAt})
		v.at(v.idle[0].at)
	}
}

// advanceIdle forgets the keys that have rested long enough; what is left of them is the floor. They are kept for about S, so
// that the clocks have passed the floor before it rises and bids usually stand above it.
func (v *Voter) advanceIdle() {
	for len(v.idle) > 0 && v.idle[0].at <= v.now.Slow {
		k := v.idle[0].key
		v.idle = v.idle[1:]
		k.listed = false
		switch {
		case !k.idleNow():
		case k.idleAt > v.now.Slow: // it was used in between, and rests anew
			k.listed = true
			v.idle = append(v.idle, resting{k, k.idleAt})
		default:
			delete(v.keys, k.name)
			v.raiseFloor(k.highest)
		}
	}
	if len(v.idle) == 0 {
		v.idle = nil
		return
	}
	v.at(v.idle[0].at)
}
