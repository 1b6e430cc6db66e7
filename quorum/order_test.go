package quorum

import (
	"math"
	"slices"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The votes in an answer are found in any order in which a voter lists them; of several votes of a
// request the last one counts.
func TestVotesAreFoundInAnAnswer(t *testing.T) {
	for name, all := range map[string][]vote.Entry{
		"in order":     {{Number: 2, Serial: 9}, {Number: 2, Serial: 20}, {Number: 5, Serial: 50}, {Number: 8, Serial: 80}},
		"out of order": {{Number: 8, Serial: 80}, {Number: 2, Serial: 9}, {Number: 5, Serial: 50}, {Number: 2, Serial: 20}},
	} {
		l := newListing(appendVotes(nil, all))
		for n, want := range []vote.Serial{1: 0, 2: 20, 3: 0, 5: 50, 7: 0, 8: 80, 9: 0} {
			got := vote.Serial(0)
			if e, ok := l.of(vote.Number(n)); ok {
				got = e.serial
			}
			if got != want {
				t.Errorf("%s: request %d has vote %d, want %d", name, n, got, want)
			}
		}
	}
}

// Requests come out in order of their numbers, whether those lie close together or far apart.
func TestRequestsComeInOrder(t *testing.T) {
	for name, numbers := range map[string][]vote.Number{
		"none":        nil,
		"one":         {7},
		"the largest": {math.MaxUint64},
		"close":       {5, 3, 9, 4, 17},
		"apart":       {1 << 40, 3, math.MaxUint64, 1},
	} {
		requests := make(map[vote.Number]*request)
		for _, n := range numbers {
			requests[n] = &request{number: n}
		}
		var got []vote.Number
		for _, r := range inOrder(requests) {
			got = append(got, r.number)
		}
		if want := slices.Sorted(slices.Values(numbers)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
