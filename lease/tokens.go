package lease

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// knownTokens is a voter's knowledge of tokens beyond the keys in memory.
type knownTokens struct {
	min   vote.Token // no key outside the voter's memory had a larger token here
	top   vote.Token // no key, in memory or forgotten, had a larger token here
	trust trust      // the defence against wrong tokens of other nodes
}

// propose returns the token proposed with a vote: the last token of a block (vote.BlockSize) above
// all tokens that the key had at this voter. The hint is considered first, cut to slightly above
// this voter's own clock (vote.Skew), so that a requester with a clock in the year 2100 can't use
// up tokens. An old hint is below the minimum token, and the minimum token differs between voters;
// to make the voters agree nevertheless, a release carries a hint for the next request in the queue
// (freed.tokenHint).
func (l *voteLayer) propose(k *key, hint vote.Token) vote.Token {
	hint = min(hint, vote.TokenAt(l.now.Wall+vote.Micros(vote.Skew.Microseconds())))
	return max(hint, k.highest.Above(), l.tokens.min.Above())
}

// unique returns the token for an entry's vote after the requester's tally has settled on t. Shared
// leases are won side by side, so two tallies may settle on tokens with overlapping blocks, each
// proposed by a voter that the other requester hasn't asked. Any two such leases have a voter in
// common; the common voter gives the second lease to ask a block above all others.
func (l *voteLayer) unique(e *entry, t vote.Token) vote.Token {
	if e.mode == vote.Exclusive || t == e.token {
		return t
	}
	k := e.key
	// The distance depends on the request, so that two requests that clash at several voters at
	// once don't clash again; and on t, since two requests may have the same distance.
	apart := func() vote.Token {
		return l.propose(k, t) + vote.BlockSize*vote.Token(vote.Scatter(e.s.id, e.number+vote.Number(t))%spread)
	}
	l.spend(len(k.votes.all()) / scanned)
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
	if k.endedShared == nil {
		return t
	}
	if ended := *k.endedShared; slices.ContainsFunc(ended, clashes) || len(ended) >= endedSharedMax && t < ended[0].Above() {
		return apart()
	}
	return t
}

// spread is the number of distances to choose from when two token blocks overlap: enough to make
// equal choices rare, and few enough to skip only milliseconds of tokens.
const spread = 64

// endedSharedMax is how many tokens of ended shared leases a key remembers while other leases go
// on. When the list is full, its smallest token stands for all smaller tokens.
const endedSharedMax = 256

// noteEndedShared remembers the token of a shared lease that has ended while other leases of the
// key go on.
func (k *key) noteEndedShared(t vote.Token) {
	if k.endedShared == nil {
		k.endedShared = new([]vote.Token)
	}
	i, _ := slices.BinarySearch(*k.endedShared, t)
	ended := slices.Insert(*k.endedShared, i, t)
	if len(ended) > endedSharedMax {
		ended = slices.Delete(ended, 0, len(ended)-endedSharedMax)
	}
	*k.endedShared = ended
}

// forgetEndedShared forgets all tokens in the list. A short list keeps its memory, since there may
// be a few tokens again.
func (k *key) forgetEndedShared() {
	if k.endedShared == nil {
		return
	}
	if *k.endedShared = (*k.endedShared)[:0]; cap(*k.endedShared) > endedSharedMax/16 {
		k.endedShared = nil
	}
}

// raise records a token that was proposed, confirmed or listed in a sync.
func (l *voteLayer) raise(k *key, t vote.Token) {
	k.highest = max(k.highest, t)
	l.tokens.top = max(l.tokens.top, t)
}

// raiseMin raises the minimum token to a token learned from other voters, an electorate, a
// forgotten key or, as a last resort, from the clock.
func (n *knownTokens) raiseMin(t vote.Token) {
	n.min = max(n.min, t)
	n.top = max(n.top, t)
}
