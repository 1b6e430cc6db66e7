package watchmerge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// history is the true history of one exclusive key, with the reports that voters have yet to
// deliver.
type history struct {
	random *rand.Rand
	n, q   int
	news   [][]vote.View         // by voter, not delivered yet
	gap    []bool                // the voter's next report begins with a gap
	known  []map[vote.Token]bool // by voter: its votes; true if the voter knows of the grant
	truth  []string
	last   vote.Token
	clock  vote.Instant
	asked  []vote.Instant // by voter: when its last report arrived, and the next was asked for
}

func (h *history) some(least int) []int {
	places := h.random.Perm(h.n)
	return places[:least+h.random.IntN(h.n-least+1)]
}

func (h *history) report(place int, s vote.View) { h.news[place] = append(h.news[place], s) }

// lease lets a lease begin and end.
func (h *history) lease(before func()) {
	token := h.last + vote.Token(20+h.random.IntN(20))
	h.last = token
	s := func(what vote.State) vote.View {
		s := see(what, vote.Exclusive, fmt.Sprintf("n%d", token%3), token)
		s.Token += vote.BlockSize - 1
		return s
	}
	voters := h.some(h.q)
	for _, v := range voters {
		h.known[v][token] = false
	}
	for _, v := range voters {
		if _, ok := h.known[v][token]; !ok {
			continue // the voter has restarted
		}
		h.known[v][token] = true
		h.report(v, s(vote.Holding))
		before()
	}
	freed := h.random.IntN(3) > 0
	var left []int
	if freed {
		told := h.some(h.q) // a majority has confirmed the release
		for _, v := range told {
			if h.known[v][token] {
				h.report(v, s(vote.Released))
			}
			delete(h.known[v], token)
		}
		for _, v := range voters {
			if h.known[v][token] {
				left = append(left, v)
			}
		}
	} else {
		left = voters
	}
	h.truth = append(h.truth, fmt.Sprintf("%d", token))
	for _, v := range left {
		if h.known[v][token] {
			h.report(v, s(vote.Ended))
		}
		delete(h.known[v], token)
		before()
	}
}

// TestAWatchOfManyHistories has voters report on a key with losses, restarts and any delays, and
// compares the events with the true history.
func TestAWatchOfManyHistories(t *testing.T) {
	sampled.Computes(t)
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := []int{1, 3, 5}[random.IntN(3)]
		h := &history{random: random, n: n, q: n/2 + 1, news: make([][]vote.View, n), gap: make([]bool, n), asked: make([]vote.Instant, n), last: 100}
		for range n {
			h.known = append(h.known, map[vote.Token]bool{})
		}
		r := newHarness(t, n)
		var told []Event
		gaps := seed%2 == 0
		whole := 0            // how many leases there were before the state after the last gap
		timely := h.some(h.q) // reports of these voters come at once, unless a voter restarts
		drain := func() (restarted bool) {
			restarted = r.merger.WantsRestart()
			for place := range n {
				if restarted { // reports under way are dropped
					h.gap[place], h.news[place] = true, nil
				}
			}
			for _, e := range r.merger.Drain(nil) {
				if told = append(told, e); e.Kind == Synced {
					whole = len(h.truth)
				}
			}
			return restarted
		}
		report := func(place, k int) { // the first k reports of a voter
			h.clock++
			if h.gap[place] {
				r.merger.AddReports(0, place, true, nil, 0)
			}
			asOf := h.asked[place]
			if h.gap[place] || k < len(h.news[place]) {
				asOf = 0
			}
			r.merger.AddReports(0, place, false, h.news[place][:k], asOf)
			h.gap[place], h.news[place], h.asked[place] = false, h.news[place][k:], h.clock
		}
		query := func() {
			shown := h.picture()
			r.merger.AddResult(0, shown)
			for _, place := range h.some(1) { // whose answers arrive
				if len(h.news[place]) == 0 && !h.gap[place] {
					r.merger.AddReports(0, place, false, nil, shown.Began)
				}
			}
		}
		step := func() {
			h.clock++
			for _, place := range timely {
				if !gaps {
					report(place, len(h.news[place]))
				}
			}
			place := random.IntN(n)
			if gaps && random.IntN(60) == 0 { // the voter restarts
				h.gap[place], h.news[place], h.known[place] = true, nil, map[vote.Token]bool{}
			}
			if random.IntN(3) == 0 {
				report(place, random.IntN(len(h.news[place])+1))
			}
			if random.IntN(4) == 0 && r.merger.WantsQuery() {
				if random.IntN(5) == 0 {
					r.merger.AddResult(0, nil)
				} else {
					query()
				}
			}
			if random.IntN(4) == 0 {
				for _, d := range r.merger.Doubts(0, 1) {
					r.merger.AddKeyResult(0, d, h.picture())
				}
			}
			drain()
		}
		r.begin()
		for range 30 {
			h.lease(step)
		}
		for range 400 {
			step()
		}
		for again := true; again; again = drain() {
			for place := range n {
				report(place, len(h.news[place]))
			}
			for r.merger.WantsQuery() {
				query()
			}
		}
		for range 2 * (queriesToSettle + 1) {
			for _, d := range r.merger.Doubts(0, 1) {
				r.merger.AddKeyResult(0, d, h.picture())
			}
		}
		drain()
		if reason := judge(told, h.truth, whole, gaps); reason != "" {
			var words []string
			for _, e := range told {
				words = append(words, short(e))
			}
			t.Fatalf("seed %d, %d voters: %s\ntruth %v\ntold %s", seed, n, reason, h.truth, strings.Join(words, ", "))
		}
	}
}

// picture returns the present result of a query to a majority.
func (h *history) picture() *quorum.QueryResult {
	h.clock++
	shown := &quorum.QueryResult{Began: h.clock}
	for _, v := range h.some(h.q) {
		for token, heard := range h.known[v] {
			s := see(vote.Promised, vote.Exclusive, fmt.Sprintf("n%d", token%3), token)
			if heard {
				s.State = vote.Holding
			}
			i := slices.IndexFunc(shown.Views, func(o vote.View) bool { return o.Number == s.Number })
			if i < 0 {
				shown.Views = append(shown.Views, s)
			} else if heard {
				shown.Views[i] = s
			}
		}
	}
	slices.SortFunc(shown.Views, func(a, b vote.View) int { return int(a.Token) - int(b.Token) })
	return shown
}

// judge returns the first fault in the events of one exclusive key. After the last gap, and its
// end, no lease may be missing; so many leases were before.
func judge(told []Event, truth []string, before int, gaps bool) string {
	held, last := vote.Token(0), vote.Token(0)
	granted := 0
	gap := false
	reported := make(map[string]bool)
	for _, e := range told {
		switch e.Kind {
		case Gap:
			if !gaps {
				return "a gap without a restart"
			}
			gap, held = true, 0
		case Synced:
			gap = false
		case Granted:
			switch {
			case held != 0:
				return fmt.Sprintf("%d is granted while %d is held", e.View.Token, held)
			case e.View.Token <= last && !e.Current:
				return fmt.Sprintf("%d is told after %d", e.View.Token, last)
			case !slices.Contains(truth, fmt.Sprint(e.View.Token)):
				return fmt.Sprintf("%d never was", e.View.Token)
			}
			held, last = e.View.Token, e.View.Token
			granted++
			reported[fmt.Sprint(e.View.Token)] = true
		case Released, Lost:
			if gap || e.View.Token != held {
				return fmt.Sprintf("the end of %d is told while %d is held", e.View.Token, held)
			}
			held = 0
		}
	}
	switch {
	case gap:
		return "the gap doesn't end"
	case held != 0:
		return fmt.Sprintf("%d is held without end", held)
	case !gaps && granted != len(truth):
		return fmt.Sprintf("%d of %d grants were told", granted, len(truth))
	}
	for _, token := range truth[before:] {
		if !reported[token] {
			return "the grant of " + token + " isn't told, and no gap"
		}
	}
	return ""
}
