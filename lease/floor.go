package lease

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// floor is what a voter knows of tokens beyond the keys it remembers.
type floor struct {
	floor vote.Token // every key that isn't remembered had no larger token here
	top   vote.Token // no key, remembered or not, had a larger one here
}

// saneToken is the largest token that a voter takes from others. Clocks reach it in 146,000 years; whoever names a larger one is broken,
// and must not use up the tokens of everyone.
const saneToken = vote.MaxToken / 2

// propose returns the token that a vote proposes: the end of a run that is above all that the key had here. The bid comes first, cut to a little
// above this voter's own clock, so that a requester whose clock stands at the year 2100 runs away with nothing. What was bid long ago
// is below the floor, which isn't the same at all voters; so that they agree all the same, a release brings a bid for whoever is next.
func (v *Voter) propose(k *key, bid vote.Token) vote.Token {
	bid = min(max(bid, v.bid), vote.TokenAt(v.now.Wall+vote.Micros(vote.Skew.Microseconds())))
	return max(bid, k.highest.Above(), v.tokens.floor.Above())
}

// unique returns the token that an entry's vote gets when its ballot has settled on t. Shared leases are won side by side, so two ballots may settle
// on tokens whose runs overlap: each on what a voter proposed for it that the other hasn't asked. Any two such leases have a voter in
// common; the second that asks it is given a run above all others.
func (v *Voter) unique(e *entry, t vote.Token) vote.Token {
	if e.mode == vote.Exclusive || t == e.token {
		return t
	}
	k := e.key
	// Each is given another distance, so that two that meet at several voters at once don't go on meeting; and another each time, since two may
	// have the same.
	apart := func() vote.Token {
		return v.propose(k, t) + vote.Run*vote.Token(vote.Scatter(e.s.id, e.number+vote.Number(t))%spread)
	}
	clashes := func(o vote.Token) bool { return t < o.Above() && o < t.Above() }
	for _, f := range k.votes.all() {
		if f != e && clashes(f.token) {
			return apart()
		}
	}
	for _, f := range k.queue.all() {
		if !f.held {
			break
		}
		if clashes(f.token) {
			return apart()
		}
	}
	if k.spent == nil {
		return t
	}
	if spent := *k.spent; slices.ContainsFunc(spent, clashes) || len(spent) >= spentMax && t < spent[0].Above() {
		return apart()
	}
	return t
}

// spread is out of how many distances one is drawn where two runs overlap: enough that it is seldom drawn twice, in few milliseconds.
const spread = 64

// spentMax is how many tokens of shared leases that are over a key remembers while others go on. With more, the oldest half
// stands for all below.
const spentMax = 256

// spend remembers the token of a shared lease that is over while others aren't.
func (k *key) spend(t vote.Token) {
	if k.spent == nil {
		k.spent = new([]vote.Token)
	}
	i, _ := slices.BinarySearch(*k.spent, t)
	spent := slices.Insert(*k.spent, i, t)
	if len(spent) > spentMax {
		spent = slices.Delete(spent, 0, len(spent)-spentMax)
	}
	*k.spent = spent
}

// forgetSpent forgets them all. Where there were few, there may be few again.
func (k *key) forgetSpent() {
	if k.spent == nil {
		return
	}
	if *k.spent = (*k.spent)[:0]; cap(*k.spent) > spentMax/16 {
		k.spent = nil
	}
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
		v.idle.add(resting{k, k.idleAt})
		v.at(v.idle.first().at)
	}
}

// advanceIdle forgets the keys that have rested long enough; what is left of them is the floor. They are kept for about S, so
// that the clocks have passed the floor before it rises and bids usually stand above it.
func (v *Voter) advanceIdle() {
	for v.idle.len() > 0 && v.idle.first().at <= v.now.Slow {
		k := v.idle.take().key
		k.listed = false
		switch {
		case !k.idleNow():
		case k.idleAt > v.now.Slow: // it was used in between, and rests anew
			k.listed = true
			v.idle.add(resting{k, k.idleAt})
		default:
			v.raiseFloor(k.highest)
			v.keys.take(k.name)
			v.spareKeys.put(k) // reminders may still name it, but by serials that no key will have again
		}
	}
	if v.idle.len() > 0 {
		v.at(v.idle.first().at)
	}
}
