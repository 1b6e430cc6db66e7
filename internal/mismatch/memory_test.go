package mismatch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
)

func TestNamesAreBounded(t *testing.T) {
	sampled.Computes(t)
	w := start(t, "a", "a b c")
	for i := range 2 * maxPeers {
		w.pass(1)
		w.sees(string(rune('A'+i%26))+strings.Repeat("x", i/26), "m", none, time.Second)
	}
	if n := len(w.m.peers); n > maxPeers {
		t.Errorf("%d names are remembered", n)
	}
}

// A node is restarted thousands of times, each time with another list. The memory of the lists and
// the work are bounded; the longest MaxTTL of all lists still counts.
func TestConfigurationsAreBounded(t *testing.T) {
	sampled.Computes(t)
	w := start(t, "a", "a b c")
	for i := range 50 * maxIdle {
		w.pass(1)
		w.sees("m", "m "+strings.Repeat("x", 1+i), none, 0)
	}
	if n := len(w.m.others); n > maxIdle+1 || n < maxIdle {
		t.Errorf("%d configurations are remembered", n)
	}
	w.m.others = map[string]*vote.Terms{}
	for i := range 2 * maxIdle {
		terms := vote.Terms{MaxTTL: time.Duration(1000-i) * time.Hour, Voters: []vote.NodeID{"gone"}}
		w.m.others[terms.String()] = &terms
	}
	w.m.forgetIdle()
	if n := len(w.m.others); n != maxIdle || w.m.longest < 900*time.Hour {
		t.Errorf("%d are remembered, and the longest MaxTTL of the others is %v", n, w.m.longest)
	}
}

// While the voters of another list are out of reach, thousands of nodes without a vote come and go,
// such as jobs that draw their names at random. A voter that waits, or gave way, goes on waiting:
// otherwise two lists would count at once.
func TestPassingNamesDontPushOutTheVotersOfAnotherList(t *testing.T) {
	sampled.Computes(t)
	dynamic := list("x y z")
	dynamic.Dynamic = true
	for _, row := range []struct {
		name    string
		theirs  vote.Terms
		counted bool // our voter has counted, and gave way
		passing string
		want    Phase
	}{
		{"a list", list("x y z"), false, "a b c", PhaseWaiting},
		{"a list, for a voter that gave way", list("v w x y z"), true, "a b c", PhaseWithdrawn},
		{"dynamic membership", dynamic, false, "a b c", PhaseWaiting},
		{"a list, beside jobs with another one", list("x y z"), false, "m", PhaseWaiting},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := start(t, "a", "a b c")
			if row.counted {
				w.m.Counts(w.at())
			}
			met := w.now
			for _, name := range []string{"x", "y", "z"} {
				w.seesTerms(name, row.theirs, counts, time.Hour)
			}
			w.m.Own(w.at(), Own{Alive: 2})
			w.want(row.want)
			for i := range maxPeers + 10 {
				w.now = w.now.Add(6 * time.Second)
				w.sees(fmt.Sprintf("cli-%d", i), row.passing, none, time.Second)
			}
			w.pass(10 * maxTTL)
			w.want(row.want)
			for _, name := range []string{"x", "y", "z"} {
				w.seesTerms(name, row.theirs, leaves, time.Hour+w.now.Sub(met))
			}
			if row.theirs.Has("v") {
				return // v and w were never met, and x, y and z have left: no majority, or a pause
			}
			w.want(PhaseSettling) // the goodbyes end the wait
		})
	}
}

// There are more voters of other configurations than are remembered. The voters that counted were
// met first, and are forgotten; they may count nevertheless, so this voter doesn't.
func TestForgottenVotersOfAnotherListAreWaitedFor(t *testing.T) {
	w := start(t, "a", "a b c")
	for _, name := range []string{"x", "y", "z"} {
		w.sees(name, "x y z", counts, time.Hour)
	}
	w.want(PhaseWaiting)
	dynamic := list("p")
	dynamic.Dynamic = true
	for i := range maxPeers { // recorded without a decision each time, which takes seconds
		p := &peer{key: dynamic.String(), at: w.now.Add(1)}
		p.sighting.Peer = vote.SessionID{Node: vote.NodeID(fmt.Sprintf("pod-%d", i)), Incarnation: 1}
		p.sighting.Terms, p.sighting.Standing = dynamic, silent
		w.m.remember(p)
	}
	w.pass(2)
	w.seesTerms("pod", dynamic, silent, time.Second)
	w.m.Own(w.at(), Own{Alive: 2, Counting: 2, Decides: true})
	if len(w.m.peers) != maxPeers || w.m.peers["x"] != nil {
		t.Fatalf("%d names are remembered, and x is %v", len(w.m.peers), w.m.peers["x"])
	}
	w.pass(10 * maxTTL)
	w.want(PhaseWaiting)
	if text := w.m.Refusal(w.at()); !strings.Contains(text, "which counts") || !strings.Contains(text, "restart this node") {
		t.Errorf("the refusal names no voter that counts, or no way out: %q", text)
	}
}

// Without a voter that counted among the forgotten, a list that decides already goes on.
func TestForgottenVotersThatWaitedStopNoMajority(t *testing.T) {
	w := start(t, "a", "a b c")
	for i := range 3 {
		w.m.lose(&peer{sighting: vote.Sighting{Terms: list("p"), Peer: vote.SessionID{Node: vote.NodeID(fmt.Sprint(i))}, Account: vote.Account{Standing: silent}}})
	}
	w.sees("p", "p", silent, time.Second)
	w.m.Own(w.at(), Own{Alive: 2})
	w.want(PhaseWaiting) // three of each
	w.m.Own(w.at(), Own{Alive: 2, Counting: 2, Decides: true})
	w.want(PhaseFree)
}
