// Package quorum is the requester's side of the protocol: it asks the voters for keys, counts their votes, keeps the sessions
// alive that the votes rest on, and knows until when a majority stands behind each lease.
//
// A Requester is a deterministic state machine. It starts no goroutine, reads no clock and does no I/O: each call is told the time
// and appends what is to be sent and what is to be told to the application. Its owner (package internal/node) calls it from one
// goroutine at a time.
package quorum

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

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

// Moved returns the set of the same voters when they stand at other places: those at place i go to to[i], or out of the set if that is
// negative.
func (s Set) Moved(to []int) (moved Set) {
	for i, place := range to {
		if s.Has(i) && place >= 0 {
			moved = moved.With(place)
		}
	}
	return moved
}

// Electorate is the set of voters of which a majority decides. It is fixed, or one version of one that follows the living; while that
// changes it is joint, and a majority of the old voters must agree with one of the new. Whoever asks goes through Decides, Until and
// Committee.
type Electorate struct {
	version uint64
	halves  []half // one; two while it is joint; none while it isn't known yet
	all     Set
}

// half is a set of voters of which a majority is needed.
type half struct {
	voters   Set
	majority int
}

// Fixed returns the electorate of the named voters for ever. It fails when there are none, too many, or one is named twice.
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

// Elected returns an electorate whose voters stand at their places in the list.
func Elected(e *vote.Electorate, places []vote.Elector) Electorate {
	d := Electorate{version: e.Version}
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

// Version returns which version of an electorate that follows the living it is; zero if it is fixed, or not known yet.
func (e Electorate) Version() uint64 { return e.version }

// Size returns how many voters there are.
func (e Electorate) Size() int { return e.all.Len() }

// Majority returns how many voters decide, at least.
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

// Committee returns the voters that are asked for a key. Here it is all of them; large meshes may give slots of keys committees
// of their own.
func (e Electorate) Committee(vote.Key) Set { return e.all }

// Decides reports whether the voters of s are a majority; of a joint electorate, of the old voters and of the new ones.
func (e Electorate) Decides(s Set) bool {
	for _, h := range e.halves {
		if (s & h.voters).Len() < h.majority {
			return false
		}
	}
	return len(e.halves) > 0
}

// Until returns the latest instant at which a majority, out of the voters of s, is still covered, given until when each voter is;
// zero if s is no majority. It is the q-th largest cover; of a joint electorate, the smaller of two.
func (e Electorate) Until(s Set, covered func(i int) vote.Instant) vote.Instant {
	if !e.Decides(s) {
		return 0
	}
	least := vote.Never
	for _, h := range e.halves {
		var few [7]vote.Instant // to clear more takes longer than all else
		until, in := few[:0], s&h.voters
		if in.Len() > len(few) {
			until = make([]vote.Instant, 0, vote.MaxVoters)
		}
		for rest := in; rest != 0; rest &= rest - 1 {
			until = append(until, covered(bits.TrailingZeros64(uint64(rest))))
		}
		slices.Sort(until)
		least = min(least, until[len(until)-h.majority])
	}
	return least
}
