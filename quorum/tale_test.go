package quorum

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// teller is a tale under test.
type teller struct {
	t    *testing.T
	tale *Tale
}

func newTeller(t *testing.T, voters int) *teller {
	t.Helper()
	var names []vote.NodeID
	for i := range voters {
		names = append(names, vote.NodeID(fmt.Sprintf("v%d", i)))
	}
	fixed, err := Fixed(names)
	e := Elected(&fixed, fixed.Voters)
	if err != nil {
		t.Fatal(err)
	}
	return &teller{t: t, tale: NewTale(e)}
}

// begin has all voters tell, and shows a picture.
func (r *teller) begin(sights ...vote.Sight) {
	r.t.Helper()
	for i := range r.tale.electorate.Size() {
		r.tale.Hear(0, i, true, nil)
	}
	r.show(sights...)
}

func (r *teller) show(sights ...vote.Sight) {
	r.t.Helper()
	if !r.tale.WantsLook() {
		r.t.Fatal("it wants no look")
	}
	r.tale.Show(0, &Shown{Sights: sights})
}

func (r *teller) hear(place int, sights ...vote.Sight) {
	for i := range sights {
		sights[i].Token += vote.Run - 1 // voters know the last of a lease's run
	}
	r.tale.Hear(0, place, false, sights)
}

// want checks what was told since the last time.
func (r *teller) want(words ...string) {
	r.t.Helper()
	var got []string
	for _, e := range r.tale.Drain(nil) {
		if e.Kind != ToldFirm {
			got = append(got, short(e))
		}
	}
	if !slices.Equal(got, words) {
		r.t.Errorf("told %q, want %q", got, words)
	}
}

func short(e Told) string {
	word := map[ToldKind]string{
		ToldGranted: "granted", ToldReleased: "released", ToldLost: "lost", ToldWaiting: "waits", ToldChanged: "changed", ToldGap: "gap", ToldSynced: "synced",
	}[e.Kind]
	if e.Kind == ToldGap || e.Kind == ToldSynced {
		return word
	}
	if e.Current {
		word += "!"
	}
	if e.Kind == ToldWaiting {
		return fmt.Sprintf("%s %s%d", word, e.Sight.Owner.Node, e.Sight.Number)
	}
	return fmt.Sprintf("%s %s%d@%d", word, e.Sight.Owner.Node, e.Sight.Number, e.Sight.Token)
}

func see(what vote.What, mode vote.Mode, who string, token vote.Token) vote.Sight {
	return vote.Sight{What: what, Key: "k", Owner: vote.SessionID{Node: vote.NodeID(who), Life: 1}, Number: vote.Number(token), Mode: mode, Token: token}
}

func TestATaleTellsTheFirstWordOnce(t *testing.T) {
	r := newTeller(t, 3)
	r.begin()
	r.want("synced")
	for place := range 3 {
		r.hear(place, see(vote.Waiting, vote.Exclusive, "b", 40), see(vote.Holding, vote.Exclusive, "a", 20))
	}
	r.want("granted a20@20", "waits b40")
	for place := range 3 {
		r.hear(place, see(vote.Freed, vote.Exclusive, "a", 20), see(vote.Holding, vote.Exclusive, "b", 40))
	}
	r.want("released a20@20", "granted b40@40")
}

func TestAVotersEndIsOnlyThatVotersLoss(t *testing.T) {
	r := newTeller(t, 3)
	r.begin()
	r.hear(0, see(vote.Holding, vote.Exclusive, "a", 20))
	r.hear(1, see(vote.Holding, vote.Exclusive, "a", 20))
	r.want("synced", "granted a20@20")
	r.hear(0, see(vote.Ended, vote.Exclusive, "a", 20))
	r.want()
	r.hear(0, see(vote.Holding, vote.Exclusive, "a", 20)) // stated anew
	r.hear(1, see(vote.Ended, vote.Exclusive, "a", 20))
	r.want()
	r.hear(0, see(vote.Ended, vote.Exclusive, "a", 20))
	r.want("lost a20@20")
	r.hear(2, see(vote.Holding, vote.Exclusive, "a", 20), see(vote.Ended, vote.Exclusive, "a", 20)) // late words
	r.want()
}

func TestANewerLeaseWaitsForTheEndOfTheOlder(t *testing.T) {
	r := newTeller(t, 3)
	r.begin()
	r.hear(0, see(vote.Holding, vote.Exclusive, "a", 20))
	r.hear(2, see(vote.Holding, vote.Exclusive, "b", 40)) // this voter hasn't heard of a's release
	r.want("synced", "granted a20@20")
	r.hear(0, see(vote.Freed, vote.Exclusive, "a", 20))
	r.want("released a20@20", "granted b40@40")
	r.hear(2, see(vote.Holding, vote.Exclusive, "c", 60))
	r.hear(1, see(vote.Holding, vote.Exclusive, "c", 60)) // nobody tells of b's end, but a majority of the newer
	r.want("lost b40@40", "granted c60@60")
	r.hear(1, see(vote.Holding, vote.Exclusive, "x", 50)) // never told, and over by now
	r.want("gap", "granted! c60@60", "synced")
}

func TestReadersAndPermitsStandBesideEachOther(t *testing.T) {
	r := newTeller(t, 3)
	r.begin()
	r.hear(0, see(vote.Holding, vote.Shared, "a", 40), see(vote.Holding, vote.Shared, "b", 20))
	r.want("synced", "granted a40@40", "granted b20@20")
	up := see(vote.Holding, vote.Exclusive, "a", 60)
	up.Beside = 40
	r.hear(0, see(vote.Freed, vote.Shared, "b", 20), up)
	r.hear(1, see(vote.Freed, vote.Shared, "a", 40))
	r.want("released b20@20", "changed a60@60")
	down := see(vote.Changed, vote.Shared, "a", 60)
	r.hear(2, down, see(vote.Holding, vote.Shared, "c", 80))
	r.want("changed a60@60", "granted c80@80")
	r.hear(0, see(vote.Freed, vote.Shared, "a", 60), see(vote.Freed, vote.Shared, "c", 80))
	r.want("released a60@60", "released c80@80")
	p1, p2, p3 := see(vote.Holding, vote.Permit, "a", 100), see(vote.Holding, vote.Permit, "b", 120), see(vote.Holding, vote.Permit, "c", 140)
	p1.Slot, p2.Slot, p3.Slot = 1, 2, 1
	r.hear(0, p1, p2, p3)
	r.want("granted a100@100", "granted b120@120")
	r.hear(1, p3)
	r.want("lost a100@100", "granted c140@140")
	p0 := see(vote.Holding, vote.Permit, "d", 90) // of slot 2, before b's, and over
	p0.Slot = 2
	for place := range 3 {
		r.hear(place, p0)
	}
	r.want("gap", "granted! b120@120", "granted! c140@140", "synced")
}

func TestAGapOfTheMeshIsAGapOfAMajority(t *testing.T) {
	r := newTeller(t, 3)
	r.begin(see(vote.Holding, vote.Exclusive, "a", 20), see(vote.Waiting, vote.Exclusive, "b", 40))
	r.want("granted! a20@20", "waits! b40", "synced")
	r.tale.Hear(0, 1, true, nil) // one voter has restarted: what it would have told is looked at
	r.want()
	r.show(see(vote.Holding, vote.Exclusive, "b", 40))
	r.want("lost a20@20", "granted b40@40")
	r.tale.Hear(0, 1, true, nil)
	r.tale.Hear(0, 2, true, nil)
	r.want("gap")
	r.hear(0, see(vote.Freed, vote.Exclusive, "b", 40))
	r.show(see(vote.Holding, vote.Exclusive, "b", 40), see(vote.Holding, vote.Exclusive, "c", 10)) // c's token is smaller: the voters have forgotten
	r.want("granted! c10@10", "synced")
}

func TestAFailedLookIsTriedAgain(t *testing.T) {
	r := newTeller(t, 3)
	r.tale.Hear(0, 1, true, nil)
	if r.tale.WantsLook() {
		t.Fatal("one voter of three is no majority")
	}
	r.tale.Hear(0, 2, true, nil)
	if !r.tale.WantsLook() || r.tale.WantsLook() {
		t.Fatal("one look at a time")
	}
	r.tale.Show(0, nil)
	r.want()
	r.show()
	r.want("synced")
}

func TestATalesMemoryIsBounded(t *testing.T) {
	r := newTeller(t, 3)
	r.begin()
	for i := range vote.Token(3 * tombsMax) {
		s := see(vote.Holding, vote.Exclusive, "a", 20*(i+1))
		s.Key = vote.Key(fmt.Sprint(i))
		r.hear(0, s)
		s.What = vote.Freed
		r.tale.Hear(0, 0, false, []vote.Sight{s})
		w := s
		w.What, w.Owner.Node = vote.Waiting, "w"
		r.hear(1, w)
		r.hear(2, w)
	}
	if n := len(r.tale.keys); n > tombsMax+waitsMax {
		t.Errorf("it remembers %d keys", n)
	}
	if n := len(r.tale.Drain(nil)); n != 9*tombsMax+1 { // none of them is firm
		t.Errorf("it told %d things", n)
	}
}

// history is a true history of one exclusive key, and what its voters have yet to tell of it.
type history struct {
	random *rand.Rand
	n, q   int
	news   [][]vote.Sight        // by voter, not delivered yet
	gap    []bool                // what the voter tells next begins with a gap
	known  []map[vote.Token]bool // by voter: leases that it takes for held
	truth  []string
	last   vote.Token
}

func (h *history) some(least int) []int {
	places := h.random.Perm(h.n)
	return places[:least+h.random.IntN(h.n-least+1)]
}

func (h *history) report(place int, s vote.Sight) { h.news[place] = append(h.news[place], s) }

// lease lets one lease come and go.
func (h *history) lease(before func()) {
	token := h.last + vote.Token(20+h.random.IntN(20))
	h.last = token
	s := func(what vote.What) vote.Sight {
		s := see(what, vote.Exclusive, fmt.Sprintf("n%d", token%3), token)
		s.Token += vote.Run - 1
		return s
	}
	voters := h.some(h.q)
	for _, v := range voters {
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
				h.report(v, s(vote.Freed))
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

// TestATaleOfManyHistories lets voters tell of a key with losses, restarts and all delays, and holds what is told against what was.
func TestATaleOfManyHistories(t *testing.T) {
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := []int{1, 3, 5}[random.IntN(3)]
		h := &history{random: random, n: n, q: n/2 + 1, news: make([][]vote.Sight, n), gap: make([]bool, n), last: 100}
		for range n {
			h.known = append(h.known, map[vote.Token]bool{})
		}
		r := newTeller(t, n)
		var told []Told
		gaps := seed%2 == 0
		timely := h.some(h.q) // what these say comes at once, if nobody restarts
		step := func() {
			for _, place := range timely {
				if !gaps {
					r.tale.Hear(0, place, false, h.news[place])
					h.news[place] = nil
				}
			}
			place := random.IntN(n)
			if gaps && random.IntN(60) == 0 { // it restarts
				h.gap[place], h.news[place], h.known[place] = true, nil, map[vote.Token]bool{}
			}
			if random.IntN(3) == 0 {
				k := random.IntN(len(h.news[place]) + 1)
				if h.gap[place] {
					r.tale.Hear(0, place, true, nil)
					h.gap[place] = false
				}
				r.tale.Hear(0, place, false, h.news[place][:k])
				h.news[place] = h.news[place][k:]
			}
			if random.IntN(4) == 0 && r.tale.WantsLook() {
				if random.IntN(5) == 0 {
					r.tale.Show(0, nil)
				} else {
					r.tale.Show(0, h.picture())
				}
			}
			told = r.tale.Drain(told)
		}
		r.begin()
		for range 30 {
			h.lease(step)
		}
		for range 400 {
			step()
		}
		for place := range n {
			r.tale.Hear(0, place, h.gap[place], h.news[place])
		}
		for r.tale.WantsLook() {
			r.tale.Show(0, h.picture())
		}
		told = r.tale.Drain(told)
		if why := judge(told, h.truth, gaps); why != "" {
			var words []string
			for _, e := range told {
				words = append(words, short(e))
			}
			t.Fatalf("seed %d, %d voters: %s\ntruth %v\ntold %s", seed, n, why, h.truth, strings.Join(words, ", "))
		}
	}
}

// picture is what a majority sees now.
func (h *history) picture() *Shown {
	shown := &Shown{}
	for _, v := range h.some(h.q) {
		for token := range h.known[v] {
			s := see(vote.Holding, vote.Exclusive, fmt.Sprintf("n%d", token%3), token)
			if !slices.ContainsFunc(shown.Sights, func(o vote.Sight) bool { return o.Number == s.Number }) {
				shown.Sights = append(shown.Sights, s)
			}
		}
	}
	slices.SortFunc(shown.Sights, func(a, b vote.Sight) int { return int(a.Token) - int(b.Token) })
	return shown
}

// judge says what is wrong with what was told of one exclusive key.
func judge(told []Told, truth []string, gaps bool) string {
	held, last := vote.Token(0), vote.Token(0)
	granted := 0
	gap := false
	for _, e := range told {
		switch e.Kind {
		case ToldGap:
			if !gaps {
				return "a gap without a restart"
			}
			gap, held = true, 0
		case ToldSynced:
			gap = false
		case ToldGranted:
			switch {
			case held != 0:
				return fmt.Sprintf("%d is granted while %d is held", e.Sight.Token, held)
			case e.Sight.Token <= last && !e.Current:
				return fmt.Sprintf("%d is told after %d", e.Sight.Token, last)
			case !slices.Contains(truth, fmt.Sprint(e.Sight.Token)):
				return fmt.Sprintf("%d never was", e.Sight.Token)
			}
			held, last = e.Sight.Token, e.Sight.Token
			granted++
		case ToldReleased, ToldLost:
			if gap || e.Sight.Token != held {
				return fmt.Sprintf("the end of %d is told while %d is held", e.Sight.Token, held)
			}
			held = 0
		}
	}
	switch {
	case gap:
		return "the gap doesn't end"
	case held != 0:
		return fmt.Sprintf("%d is held for ever", held)
	case !gaps && granted != len(truth):
		return fmt.Sprintf("%d of %d grants were told", granted, len(truth))
	}
	return ""
}

func TestALeaseIsFirmWhenAMajorityHasSaidSo(t *testing.T) {
	r := newTeller(t, 3)
	firm := func(want int) {
		t.Helper()
		n := 0
		for _, e := range r.tale.Drain(nil) {
			if e.Kind == ToldFirm {
				n++
			}
		}
		if n != want {
			t.Errorf("told %d times, want %d", n, want)
		}
	}
	r.begin(see(vote.Holding, vote.Shared, "a", 20))
	firm(0) // one voter may have said so, and late
	r.hear(0, see(vote.Holding, vote.Shared, "a", 20))
	firm(0)
	r.hear(2, see(vote.Changed, vote.Shared, "a", 20))
	firm(1)
	r.hear(1, see(vote.Holding, vote.Shared, "a", 20))
	firm(0)
	r.tale.Relook()
	r.tale.WantsLook()
	r.tale.Show(0, &Shown{Sights: []vote.Sight{see(vote.Holding, vote.Shared, "a", 20), see(vote.Holding, vote.Shared, "b", 40)}, Said: []Set{1, 3}})
	firm(1)
	r.tale.out = r.tale.State()
	firm(2)
}
