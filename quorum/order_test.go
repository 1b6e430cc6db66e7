package quorum

import (
	"slices"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The votes in an answer are found in any order, and so are requests listed ahead; of several votes
// for a request the last vote counts.
func TestVotesAreFoundInAnAnswer(t *testing.T) {
	ahead := map[vote.Number]struct{}{5: {}}
	for name, all := range map[string][]vote.Entry{
		"in order":     {{Number: 2, Serial: 9}, {Number: 2, Serial: 20}, {Number: 5, Serial: 50}, {Number: 8, Serial: 80}},
		"one ahead":    {{Number: 5, Serial: 50}, {Number: 2, Serial: 9}, {Number: 2, Serial: 20}, {Number: 8, Serial: 80}},
		"out of order": {{Number: 8, Serial: 80}, {Number: 2, Serial: 9}, {Number: 5, Serial: 50}, {Number: 2, Serial: 20}},
	} {
		var l listing
		l.add(all[:2], ahead)
		l.add(all[2:], ahead)
		if mixed := name == "out of order"; l.mixed != mixed {
			t.Errorf("%s: out of order: %v", name, l.mixed)
		}
		l.sort()
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

// A long answer is kept in pages, and each vote is found.
func TestVotesOfManyPagesAreFound(t *testing.T) {
	var l listing
	const last = 3*listedPage + 7
	for n := vote.Number(1); n <= last; n++ {
		l.add([]vote.Entry{{Number: n, Serial: vote.Serial(2 * n)}}, nil)
	}
	for n := vote.Number(1); n <= last; n++ {
		if e, ok := l.of(n); !ok || e.serial != vote.Serial(2*n) {
			t.Fatalf("request %d of %d has vote %+v", n, last, e)
		}
	}
	if len(l.pages) != 0 {
		t.Errorf("%d pages are left", len(l.pages))
	}
}

// A pass over the list visits each request once, in order, whatever ends in the meantime.
func TestAPassMeetsEachRequestOnce(t *testing.T) {
	q := New(Config{Self: vote.SessionID{Node: "r", Incarnation: 1}}, vote.Now{})
	all := make([]*request, 20)
	for i := range all {
		q.last++
		all[i] = &request{number: q.last}
		q.addToTable(all[i])
	}
	q.review.pass = q.pass()
	var got []vote.Number
	for r := q.review.take(); r != nil; r = q.review.take() {
		if got = append(got, r.number); !q.review.has(r) {
			t.Errorf("request %d isn't passed", r.number)
		}
		q.removeRequest(r)
		if n := int(r.number); n%5 == 0 && n < len(all) {
			if q.review.has(all[n]) {
				t.Errorf("request %d is passed", n+1)
			}
			q.removeRequest(all[n]) // the next request
		}
		q.last++
		late := &request{number: q.last}
		if q.addToTable(late); !q.review.has(late) {
			t.Errorf("request %d, made during the pass, isn't passed", late.number)
		}
	}
	if want := []vote.Number{1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 13, 14, 15, 17, 18, 19, 20}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if rest := q.sorted(nil); len(rest) != len(got) || len(q.requests) != len(got) || rest[0].number != 21 {
		t.Errorf("%d requests are left", len(rest))
	}
}
