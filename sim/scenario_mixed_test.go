package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// way is the state of a link between two nodes.
type way uint8

const (
	wayOpen   way = iota
	waySilent     // no message of the first node arrives
	wayDeaf       // no message of the second node arrives
	wayCut        // no message arrives
	ways
)

func (k way) String() string { return [...]string{"open", "silent", "deaf", "cut"}[k] }

// cutWay puts a link into the given state.
func (s *scene) cutWay(one, other string, k way) {
	if k == waySilent || k == wayCut {
		s.CutOneWay(one, other)
	}
	if k == wayDeaf || k == wayCut {
		s.CutOneWay(other, one)
	}
}

// digits returns the n-th of all combinations of states of some links.
func digits(n, links int) []way {
	of := make([]way, links)
	for i := range of {
		of[i] = way(n % int(ways))
		n /= int(ways)
	}
	return of
}

// mixed is a set of scenes in which the links of one node, the first in the queue for a key, are
// cut in different directions.
type mixed struct {
	voters, first, next string
	among               bool // the links between the other voters are cut in all directions too
	stride              int  // the gate tries one of so many combinations
}

// TestFault69LinksAreCutInMixedDirections cuts the links between a node and the voters, in every
// combination of directions: some voters receive nothing from the node, the node receives nothing
// from some voters, and some links are cut both ways. The node holds the key, or asks for the key
// after the cut. As long as a majority of voters is on open links (a node that votes reaches its
// own voter), the node's lease goes on. Otherwise the next node in the queue has the key one TTL
// after the cut.
func TestFault69LinksAreCutInMixedDirections(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for _, m := range []mixed{
		{voters: "abc", first: "a", next: "x2", stride: 1},
		{voters: "abc", first: "a", next: "x2", among: true, stride: 5},
		{voters: "abc", first: "a", next: "b", stride: 1},
		{voters: "abc", first: "x1", next: "x2", stride: 1},
		{voters: "abc", first: "x1", next: "x2", among: true, stride: 127},
		{voters: "abc", first: "x1", next: "b", stride: 5},
		{voters: "abcde", first: "a", next: "x2", stride: 23},
		{voters: "abcde", first: "a", next: "b", stride: 23},
		{voters: "abcde", first: "x1", next: "x2", stride: 101},
	} {
		voters := strings.Split(m.voters, "")
		name := fmt.Sprintf("%s of %d voters, then %s", m.first, len(voters), m.next)
		if m.among {
			name += ", voters cut too"
		}
		for _, holds := range []bool{true, false} {
			what := "asks"
			if holds {
				what = "holds"
			}
			t.Run(name+", "+what, func(t *testing.T) {
				var links [][2]string
				for _, v := range voters {
					if v != m.first {
						links = append(links, [2]string{m.first, v})
					}
				}
				own := len(links)
				for i, v := range voters {
					for _, u := range voters[i+1:] {
						if m.among && v != m.first {
							links = append(links, [2]string{v, u})
						}
					}
				}
				all := 1
				for range links {
					all *= int(ways)
				}
				for i := range all {
					if !sampled.Case(i, m.stride) {
						continue
					}
					m.play(t, i, holds, voters, links, digits(i, len(links)), own)
					if t.Failed() {
						t.Fatalf("combination %d of %v: %v", i, links, digits(i, len(links)))
					}
				}
			})
		}
	}
}

// play plays the combination with number i. left has the states of the links; the first own links
// are links of the first node in the queue, the other links are links between voters.
func (m *mixed) play(
	t *testing.T, i int, holds bool, voters []string, links [][2]string, left []way, own int,
) {
	s := awake(t, Options{Voters: len(voters), Clients: 3})
	open := len(voters) - own // the node's own vote
	for _, k := range left[:own] {
		if k == wayOpen {
			open++
		}
	}
	cut := func() {
		for j, l := range links {
			s.cutWay(l[0], l[1], left[j])
		}
	}
	var first, next *Request
	if holds {
		first = s.holds(m.first, "k")
		next = s.Lock(m.next, "k")
		s.Run(sceneTTL + sceneTTL/vote.RefreshesPerTTL*time.Duration(i%8)/8)
		cut()
	} else {
		s.Run(sceneTTL)
		cut()
		first = s.Lock(m.first, "k")
		s.Run(50*time.Millisecond + sceneTTL*time.Duration(i%8)/8)
		next = s.Lock(m.next, "k")
	}
	begun := s.Now()
	if open > len(voters)/2 {
		s.Run(3 * sceneTTL)
		s.is(first, Granted)
		s.is(next, Waiting)
		s.Release(first)
		s.becomes(next, Granted, sceneTTL+soon)
		s.verdict()
		return
	}
	s.becomes(next, Granted, 3*sceneTTL)
	least := time.Duration(0)
	if holds {
		least = sceneTTL / 2
		s.is(first, Lost)
	} else {
		s.is(first, Waiting)
	}
	s.between("the way to the key", next.Had-begun, least, sceneTTL+soon)
	// The earliest request, from a node with cut links, must not take the key anew.
	for turn := range 3 {
		then := s.Lock([]string{"x3", m.next}[turn%2], "k")
		s.Run(sceneTTL / 3)
		s.Release(next)
		s.becomes(then, Granted, sceneTTL+soon)
		next = then
	}
	s.verdict()
}
