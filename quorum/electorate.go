package quorum

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Set is a set of voters, by their places in the electorate.
type Set uint64

// With returns s and the voter at place i.
func (s Set) With(i int) Set { return s | 1<<i }

// Without returns s without the voter at place i.
func (s Set) Without(i int) Set { return s &^ (1 << i) }

// Has reports whether the voter at place i is in s.
func (s Set) Has(i int) bool { return s>>i&1 != 0 }

// Len returns how many voters are in s.
func (s Set) Len() int { return bits.OnesCount64(uint64(s)) }

// Moved returns the set of the same voters at other places: the voter at place i moves to place
// to[i], or out of the set if to[i] is negative.
func (s Set) Moved(to []int) (moved Set) {
	for i, place := range to {
		if s.Has(i) && place >= 0 {
			moved = moved.With(place)
		}
	}
	return moved
}

// Electorate is the set of voters of which a majority decides. An electorate is fixed, or one
// version of a dynamic membership. While the membership changes the electorate is joint: a majority
// of the old voters must agree with a majority of the new voters. Callers go through methods such
// as Decides, Until and All.
type Electorate struct {
	version uint64
	halves  []half // one; two while the electorate is joint; none while it is unknown
	all     Set
	grants  time.Duration // the longest time for which its voters extend a session; zero if undecided
}

// half is a set of voters of which a majority is needed.
type half struct {
	voters   Set
	majority int
}

// Fixed returns the fixed electorate of the named voters. Fixed fails if there are no names, too
// many names, or duplicate names.
func Fixed(names []vote.NodeID) (vote.Electorate, error) {
	voters := make([]vote.Elector, len(names))
	for i, name := range names {
		voters[i].Name = name
	}
	slices.SortFunc(voters, vote.Elector.Compare)
	switch {
	case len(voters) == 0:
		return vote.Electorate{}, errors.New("no voters are named")
	case len(voters) > vote.MaxVoters:
		return vote.Electorate{}, fmt.Errorf("%d voters are named; at most %d can vote", len(voters), vote.MaxVoters)
	}
	for i := 1; i < len(voters); i++ {
		if voters[i] == voters[i-1] {
			return vote.Electorate{}, fmt.Errorf("voter %q is named twice", voters[i].Name)
		}
	}
	return vote.Electorate{Voters: voters}, nil
}

// NewElectorate returns an electorate of voters at their places in the given list.
func NewElectorate(e *vote.Electorate, places []vote.Elector) Electorate {
	d := Electorate{version: e.Version, grants: e.GrantLimit(0)}
	for _, voters := range [][]vote.Elector{e.Old, e.Voters} {
		h := half{majority: len(voters)/2 + 1}
		for _, v := range voters {
			h.voters = h.voters.With(slices.Index(places, v))
		}
		if len(voters) > 0 {
			d.halves = append(d.halves, h)
			d.all |= h.voters
		}
	}
	return d
}

// Version returns the version of a dynamic electorate; zero for a fixed or unknown electorate.
func (e Electorate) Version() uint64 { return e.version }

// Size returns how many voters there are.
func (e Electorate) Size() int { return e.all.Len() }

// Majority returns a lower bound of how many voters decide: the larger of the halves' majorities.
func (e Electorate) Majority() (least int) {
	for _, h := range e.halves {
		least = max(least, h.majority)
	}
	return least
}

// Known reports whether there are voters.
func (e Electorate) Known() bool { return len(e.halves) > 0 }

// All returns the set of all voters.
func (e Electorate) All() Set { return e.all }

// Decides reports whether the voters of s are a majority; in a joint electorate, of the old voters
// and of the new voters.
func (e Electorate) Decides(s Set) bool {
	for _, h := range e.halves {
		if (s & h.voters).Len() < h.majority {
			return false
		}
	}
	return len(e.halves) > 0
}

// spare returns how many voters of s may fail, whichever they are, with the rest a majority.
func (e Electorate) spare(s Set) int {
	if len(e.halves) == 0 {
		return 0
	}
	least := e.all.Len()
	for _, h := range e.halves {
		least = min(least, (s&h.voters).Len()-h.majority)
	}
	return max(least, 0)
}

// mayHold reports whether the votes of s may belong to a lease: s has a majority of the voters, or
// of the old voters in a joint electorate. A lease granted before the electorate was joint needs no
// more votes, and every other lease has these votes as well.
func (e Electorate) mayHold(s Set) bool {
	return len(e.halves) > 0 && (s&e.halves[0].voters).Len() >= e.halves[0].majority
}

// MayGoOn reports whether a lease may go on with the votes of s: s has a majority of the voters; in
// a joint electorate, of the old or of the new voters, since other nodes may know already that the
// electorate is no longer joint.
func (e Electorate) MayGoOn(s Set) bool {
	return slices.ContainsFunc(e.halves, func(h half) bool { return (s & h.voters).Len() >= h.majority })
}

// meetsEveryMajority reports whether s has a voter of each majority that may have confirmed the end
// of a lease. So if all voters of s report the lease, one of them knows that the lease is held. In
// a joint electorate s needs old voters: a lease may have been released before the electorate was
// joint, and new voters may not have heard of the release yet.
func (e Electorate) meetsEveryMajority(s Set) bool {
	return len(e.halves) > 0 && (e.halves[0].voters&^s).Len() < e.halves[0].majority
}

// Until returns the latest instant at which a majority, out of the voters of s, is still valid,
// given the end of each voter's validity; zero if s is no majority. The result is the q-th largest
// end; in a joint electorate, the smaller of two such results.
func (e Electorate) Until(s Set, ends func(i int) vote.Instant) vote.Instant {
	if !e.Decides(s) {
		return 0
	}
	least := vote.Never
	for _, h := range e.halves {
		// A larger array would take longer to clear than everything else takes.
		var few [7]vote.Instant
		until, in := few[:0], s&h.voters
		if in.Len() > len(few) {
			until = make([]vote.Instant, 0, vote.MaxVoters)
		}
		for rest := in; rest != 0; rest &= rest - 1 {
			until = append(until, ends(bits.TrailingZeros64(uint64(rest))))
		}
		slices.Sort(until)
		least = min(least, until[len(until)-h.majority])
	}
	return least
}
