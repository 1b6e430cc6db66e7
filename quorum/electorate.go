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

// Electorate is the set of voters of which a majority decides. This one is fixed; one that follows the living will be joint while
// it changes, and then both of its halves must decide. Whoever asks goes through Decides, Until and Committee.
type Electorate struct {
	voters   []vote.NodeID // sorted
	majority int
}

// NewElectorate returns the electorate of the named voters. It fails when there are none, too many, or one is named twice.
func NewElectorate(names []vote.NodeID) (Electorate, error) {
	voters := slices.Clone(names)
	slices.Sort(voters)
	switch {
	case len(voters) == 0:
		return Electorate{}, errors.New("no voters are named")
	case len(voters) > vote.MaxVoters:
		return Electorate{}, fmt.Errorf("%d voters are named; at most %d can vote", len(voters), vote.MaxVoters)
	}
	for i := 1; i < len(voters); i++ {
		if voters[i] == voters[i-1] {
			return Electorate{}, fmt.Errorf("voter %q is named twice", voters[i])
		}
	}
	return Electorate{voters, len(voters)/2 + 1}, nil
}

// Voters returns the voters' names in order. The caller must not change them.
func (e Electorate) Voters() []vote.NodeID { return e.voters }

// Size returns how many voters there are.
func (e Electorate) Size() int { return len(e.voters) }

// Majority returns how many voters decide.
func (e Electorate) Majority() int { return e.majority }

// All returns the set of all voters.
func (e Electorate) All() Set { return Set(1)<<len(e.voters) - 1 }

// Committee returns the voters that are asked for a key. Here it is all of them; large meshes may give slots of keys committees
// of their own.
func (e Electorate) Committee(vote.Key) Set { return e.All() }

// Decides reports whether the voters of s are a majority.
func (e Electorate) Decides(s Set) bool { return s.Len() >= e.majority }

// Until returns the latest instant at which a majority, out of the voters of s, is still covered, given until when each voter is;
// zero if s is no majority. It is the q-th largest cover.
func (e Electorate) Until(s Set, covered func(i int) vote.Instant) vote.Instant {
	if !e.Decides(s) {
		return 0
	}
	var until [vote.MaxVoters]vote.Instant
	n := 0
	for i := range e.voters {
		if s.Has(i) {
			until[n] = covered(i)
			n++
		}
	}
	slices.Sort(until[:n])
	return until[n-e.majority]
}
