package quorum

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// stamps makes the stamps of new requests and the token hints of requests on their way to the
// voters, from this node's wall clock and from the clocks and the tokens of the voters, as far as
// known.
type stamps struct {
	median  vote.Micros // of the offsets of the voters' wall clocks from this node's
	clocked bool        // median is known
	seen    vote.Token  // the largest token seen on any key
}

// note records a token won, or accepted from a voter.
func (s *stamps) note(t vote.Token) { s.seen = max(s.seen, t) }

// tokenHint returns the token to propose for a lease requested now, or granted now to another
// request.
func (s *stamps) tokenHint(wall vote.Micros) vote.Token {
	return max(vote.TokenAt(wall), s.seen.Next())
}

// stamp returns the time of a new request's stamp: this node's wall clock, brought to within S of
// the median of the voters' clocks, so that a node with a slow clock doesn't permanently overtake
// the other nodes by more than S.
func (s *stamps) stamp(wall vote.Micros) vote.Micros {
	if !s.clocked {
		return wall
	}
	skew := vote.Micros(vote.Skew.Microseconds())
	mid := wall + s.median
	return min(max(wall, mid-skew), mid+skew)
}

// setMedian computes the median offset of the voters' wall clocks from this node's.
func (s *stamps) setMedian(peers []*peer) {
	var offsets [vote.MaxVoters]vote.Micros
	n := 0
	for _, p := range peers {
		if p.clocked {
			offsets[n] = p.offset
			n++
		}
	}
	if n == 0 {
		return
	}
	slices.Sort(offsets[:n])
	s.median, s.clocked = offsets[n/2], true
}
