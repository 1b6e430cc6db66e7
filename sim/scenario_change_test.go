package sim

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/fault"
)

// Rows 38 to 40 of the list of faults: a change of the electorate meets a partition, the death of
// its proposer, and another change.

// growing returns a mesh of three founders in which y, a standby, holds a lease. d and e are about
// to start and be voted in. There are many such worlds, so they have no trace and aren't settled.
func growing(t *testing.T) (s *scene, r *Request) {
	w := New(Options{
		Seed: 1, Voters: 3, Clients: 3, Names: []string{"a", "b", "c", "d", "e", "y"}, MaxTTL: sceneTTL, Clocks: Clocks{Exact: true},
		Dynamic: &Dynamic{MaxVoters: 5, Absent: []string{"d", "e"}},
	})
	s = &scene{t: t, World: w, scenario: w.Script}
	s.founded()
	s.Run(sceneTTL / 2)
	return s, s.holds("y", "k")
}

// faultsAtAStep are the faults injected into a node, or the mesh, in the midst of a change.
var faultsAtAStep = []struct {
	name   string
	keeps  bool // y's lease is kept
	gone   bool // the victim is gone for good, and y votes in its place
	inject func(s *scene, victim string)
}{
	{"is lost", true, true, func(s *scene, v string) { s.dynamic.Lose(v) }},
	{"restarts", true, false, func(s *scene, v string) {
		// Only a part of the sent messages arrives, and the save under way is stored or lost.
		s.crash(s.host(v), endingSilent, s.host(v).rng)
		s.Start(v)
	}},
	{"is cut off", true, false, func(s *scene, v string) {
		others := fault.Without([]string{"a", "b", "c", "d", "e", "y"}, []string{v})
		s.Cut(v, others...)
		s.At(2*sceneTTL, func() { s.Mend(v, others...) })
	}},
	{"is with a minority", false, false, func(s *scene, v string) {
		one := []string{v, "d"}
		if v == "d" {
			one = []string{"d", "e"}
		}
		other := fault.Without([]string{"a", "b", "c", "d", "e", "y"}, one)
		s.Split(one, other)
		s.At(2*sceneTTL, func() { s.Join(one, other) })
	}},
}

// envMutants, if set, combines every fault with every step, as make mutants does.
const envMutants = "LOCKMESH_MUTANTS"

// TestFault39AChangeIsHarmedAtAnyStep has a node die, restart or be cut off at each message of a
// change: another node completes the change, and leases go on. The test covers the messages of both
// elections.
func TestFault39AChangeIsHarmedAtAnyStep(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	steps, combo := map[string]bool{}, 0
	for _, kind := range consensusKinds {
		for i, mode := range []string{"sends", "hasn't handled", "has handled"} {
			for _, victim := range []string{"a", "b", "d"} {
				for _, version := range []uint64{2, 3} {
					if combo++; sampled.Raced && combo%5 > 0 {
						continue
					}
					for j, h := range faultsAtAStep {
						if (combo+j)%len(faultsAtAStep) > 0 && os.Getenv(envMutants) == "" {
							continue // one fault per step is enough where time is short
						}
						name := fmt.Sprintf("%s %s when it %s %v for electorate %d", victim, h.name, mode, kind, version)
						s, r := growing(t)
						fired := false
						arm := func() {
							b := &ambush{kind: kind, sends: i == 0, after: i == 2}
							b.kill = func() {
								if s.host(victim).ambush == b {
									s.host(victim).ambush = nil
									fired = true
									h.inject(s, victim)
								}
							}
							s.host(victim).ambush = b
						}
						s.Start("d")
						s.Start("e")
						if version == 2 {
							// Until shortly before d and e may be voted in.
							s.Run(sceneTTL - 100*time.Millisecond)
							arm()
						} else {
							s.RunUntil(20*sceneTTL, func() bool { return s.dynamic.Electorate().Version == 2 })
							s.Run(electorate.Drain(sceneTTL) - 100*time.Millisecond)
							arm()
						}
						s.RunUntil(20*sceneTTL, func() bool { return fired || s.dynamic.Electorate().Version == 3 })
						s.Run(20 * time.Millisecond)
						if s.verdict(); fired {
							s.changed(t, name, r, h.keeps, func() bool { return h.gone }, victim)
							steps[fmt.Sprintf("%s %s %v %d", victim, mode, kind, version)] = true
						}
						if t.Failed() {
							t.Fatal(name)
						}
					}
				}
			}
		}
	}
	for _, version := range []string{"2", "3"} {
		for _, step := range []string{
			"a sends prepare", "a hasn't handled prepared", "a has handled prepared", "a sends accept", "a hasn't handled accepted", "a has handled accepted", "a sends electorate",
			"b hasn't handled prepare", "b sends prepared", "b hasn't handled accept", "b sends accepted", "b hasn't handled electorate", "d has handled electorate",
		} {
			if !steps[step+" "+version] && !sampled.Raced {
				t.Errorf("nothing was done at this step: %s %s", step, version)
			}
		}
	}
	t.Logf("%d steps", len(steps))
}

// changed demands that the change is completed: five nodes vote.
func (s *scene) changed(t *testing.T, name string, r *Request, keeps bool, gone func() bool, victim string) {
	t.Helper()
	want := func() bool {
		if gone() {
			return s.dynamic.Voting(fault.Without([]string{"a", "b", "c", "d", "e", "y"}, []string{victim})...)
		}
		// y may have taken the seat of an absent node.
		return !s.joint() && len(s.dynamic.Electorate().Voters) == 5
	}
	if !s.RunUntil(20*sceneTTL, want) && s.failed == nil {
		t.Fatalf("%s: at %v it is electorate %+v", name, s.Now(), s.dynamic.Electorate())
	}
	all := slices.DeleteFunc([]string{"a", "b", "c", "d", "e", "y"}, func(n string) bool { return n == victim && gone() })
	s.RunUntil(6*sceneTTL, func() bool {
		return !slices.ContainsFunc(all, func(n string) bool { return s.dynamic.Knows(n) != s.dynamic.Electorate().Version })
	})
	if s.failed == nil && keeps && r.State != Granted {
		t.Fatalf("%s: y's lease is %v", name, r.State)
	}
	if s.verdict(); s.failed == nil {
		s.applies(all...)
	}
}

// TestFault39TheProposerIsHarmedWhileTheJointElectorateDrains has a node die, restart or be cut off
// between the two elections. If the node is the proposer, another voter takes over and drains anew.
func TestFault39TheProposerIsHarmedWhileTheJointElectorateDrains(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for _, percent := range []int{0, 50, 99, 101} {
		for _, victim := range []string{"a", "c", "e"} {
			for _, h := range faultsAtAStep {
				name := fmt.Sprintf("%s %s when %d %% of the drain is over", victim, h.name, percent)
				s, r := growing(t)
				s.Start("d")
				s.Start("e")
				s.RunUntil(20*sceneTTL, func() bool { return s.dynamic.Electorate().Version == 2 })
				s.Run(time.Duration(percent) * (electorate.Drain(sceneTTL) / 100))
				h.inject(s, victim)
				s.changed(t, name, r, h.keeps, func() bool { return h.gone }, victim)
				if t.Failed() {
					t.Fatal(name)
				}
			}
		}
	}
}

// TestFault38OnlyAMajorityOfTheOldOnesDecides shows that in a partition the side with a majority
// votes the other voters out, and the other side changes nothing, however many standbys are there.
func TestFault38OnlyAMajorityOfTheOldOnesDecides(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	s := mesh(t, 5, []string{"f", "g", "h", "i", "j"}, Dynamic{MaxVoters: 5})
	s.Run(2 * sceneTTL)
	minority, majority := []string{"a", "b", "f", "g", "h"}, []string{"c", "d", "e", "i", "j"}
	lost, kept := s.holds("a", "lost"), s.holds("c", "kept")
	s.Split(minority, majority)
	s.voting(20*sceneTTL, majority...)
	for _, n := range minority {
		if s.dynamic.Knows(n) != 1 {
			t.Errorf("%s knows electorate %d", n, s.dynamic.Knows(n))
		}
	}
	s.serveNot(10*sceneTTL, minority...)
	s.is(lost, Lost)
	s.is(kept, Granted)
	s.serves("j")
	s.Join(minority, majority)
	s.Run(3 * sceneTTL)
	s.applies(append(minority, majority...)...)
	s.is(kept, Granted)
	s.serves("a")
}

// TestFault38AChangeIsCutInTwo starts a partition when the joint electorate is decided. A side with
// majorities of both halves goes on. If no side has both, no node is served until a majority of the
// old voters has gone back to the old electorate; then only its side is served.
func TestFault38AChangeIsCutInTwo(t *testing.T) {
	t.Parallel()
	sampled.Computes(t)
	for _, row := range []struct {
		one, other []string
		// serves is the side that is served: 0 or 1, or, once the old voters of the side have gone
		// back, -1 (the first side) or -2 (the second side).
		serves int
	}{
		{[]string{"a", "b", "d"}, []string{"c", "e", "y"}, 0},
		{[]string{"a", "d", "e"}, []string{"b", "c", "y"}, -2}, // new voters here, old there
		{[]string{"a", "b", "y"}, []string{"c", "d", "e"}, -1}, // old voters here, new there
		{[]string{"a"}, []string{"b", "c", "d", "e", "y"}, 1},  // the proposer is alone
		{[]string{"a", "b", "c", "y"}, []string{"d", "e"}, 0},  // the new voters are alone
		{[]string{"a", "d", "e", "y"}, []string{"b", "c"}, -2}, // majority of new, not of old
		{[]string{"a", "c", "d", "e"}, []string{"b", "y"}, 0},
		{[]string{"a", "b", "c"}, []string{"d", "e", "y"}, 0},
		{[]string{"c", "d", "e", "y"}, []string{"a", "b"}, -2},     // the deciders are alone
		{[]string{"a", "b", "c", "d", "e"}, []string{"y", "x"}, 0}, // no voter is missing
	} {
		t.Run(fmt.Sprint(row.one, row.other), func(t *testing.T) {
			s := mesh(t, 3, []string{"d", "e", "x", "y"}, Dynamic{MaxVoters: 5}, "d", "e", "x")
			s.Run(2 * sceneTTL)
			s.Start("d")
			s.Start("e")
			one, other := fault.Without(row.one, []string{"x"}), fault.Without(row.other, []string{"x"})
			if !s.RunUntil(20*sceneTTL, func() bool { return s.dynamic.Electorate().Version == 2 }) {
				t.Fatal("nothing changes")
			}
			s.Run(30 * time.Millisecond) // until all know version 2
			s.applies("a", "b", "c", "d", "e")
			s.Split(one, other)
			s.Run(2 * sceneTTL) // until earlier leases are over
			sides := [][]string{one, other}
			if row.serves >= 0 {
				s.serves(sides[row.serves][0])
				s.serveNot(8*sceneTTL, sides[1-row.serves]...)
				s.serves(sides[row.serves][0])
			} else {
				back, rest := sides[-1-row.serves], sides[2+row.serves]
				if !s.RunUntil(20*sceneTTL, func() bool { return s.dynamic.Electorate().Version == 3 }) || s.joint() {
					t.Fatalf("the old ones don't go back: %+v", s.dynamic.Electorate())
				}
				s.Run(sceneTTL)
				s.serves(back[0])
				s.serveNot(8*sceneTTL, rest...)
				s.serves(back[0])
			}
			s.Join(one, other)
			s.Run(10 * sceneTTL)
			if s.joint() {
				t.Errorf("it is electorate %+v", s.dynamic.Electorate())
			}
			s.applies("a", "b", "c", "d", "e")
			s.serves("y")
		})
	}
}

// TestFault40TwoChangesAtOnce has a and b, without contact to each other, propose to vote in
// different nodes: each the nodes within its own reach and c's. c is stopped until both have asked
// c, and then decides for one of the proposals.
func TestFault40TwoChangesAtOnce(t *testing.T) {
	t.Parallel()
	sampled.Computes(t)
	won, met := map[string]int{}, 0
	for seed := uint64(1); seed <= 24; seed++ {
		s := stage(t, Options{
			Seed: seed, Voters: 3, Clients: 4, Names: []string{"a", "b", "c", "d", "e", "f", "g"},
			Dynamic: &Dynamic{MaxVoters: 5, Absent: []string{"d", "e", "f", "g"}},
		})
		s.founded()
		s.Run(2 * sceneTTL)
		r := s.holds("c", "k")
		asked := map[string]bool{}
		for _, v := range []string{"a", "b"} {
			s.dynamic.when(v, true, vote.KindPrepare, func() {
				if asked[v] = true; len(asked) == 2 {
					s.Continue("c")
					return
				}
				s.Stop("c")
				s.At(400*time.Millisecond, func() { s.Continue("c") })
			})
		}
		s.Split([]string{"a", "d", "e"}, []string{"b", "f", "g"})
		for _, n := range []string{"d", "e", "f", "g"} {
			s.Start(n)
		}
		s.RunUntil(20*sceneTTL, func() bool { return s.dynamic.Electorate().Version == 2 })
		met += bit(len(asked) == 2)
		if !s.RunUntil(20*sceneTTL, func() bool { return s.dynamic.Electorate().Version == 3 }) && s.failed == nil {
			t.Fatalf("seed %d: nobody wins: %+v", seed, s.dynamic.Electorate())
		}
		winner := "a"
		if s.dynamic.Voting("a", "b", "c", "f", "g") {
			winner = "b"
		} else if !s.dynamic.Voting("a", "b", "c", "d", "e") {
			t.Fatalf("seed %d: it is electorate %+v", seed, s.dynamic.Electorate())
		}
		won[winner]++
		s.is(r, Granted)
		s.Run(3 * sceneTTL)
		s.Join([]string{"a", "d", "e"}, []string{"b", "f", "g"})
		s.Run(3 * sceneTTL)
		s.applies("a", "b", "c", "d", "e", "f", "g")
		s.serves("a")
		s.serves("b")
	}
	t.Logf("%d times both had asked; who won: %v", met, won)
	if met < 5 || won["a"] == 0 || won["b"] == 0 {
		t.Error("that shows nothing")
	}
}

// TestFault40AChangeThatWasAcceptedIsContinued kills a when one other voter has accepted a's
// proposal. The others decide on this proposal, and not on changes of their own.
func TestFault40AChangeThatWasAcceptedIsContinued(t *testing.T) {
	t.Parallel()
	s := mesh(t, 3, []string{"d", "e", "f", "g"}, Dynamic{MaxVoters: 5}, "d", "e", "f", "g")
	s.Run(2 * sceneTTL)
	s.Cut("c", "a", "d", "e")
	s.dynamic.when("b", true, vote.KindAccepted, func() {
		s.dynamic.Lose("a")
		s.Cut("b", "d", "e") // b and c don't reach the nodes of a's proposal
	})
	s.Start("f") // instead b and c reach f and g
	s.Start("g")
	s.Cut("a", "f", "g")
	s.Start("d")
	s.Start("e")
	if !s.RunUntil(20*sceneTTL, func() bool { return s.dynamic.Electorate().Version == 2 }) && s.failed == nil {
		t.Fatal("nothing is decided")
	}
	if e := s.dynamic.Electorate(); len(e.Voters) != 5 || e.Voters[0].Name != "a" || e.Voters[3].Name != "d" {
		t.Fatalf("what a had one accept is passed over: %+v", e)
	}
	s.Mend("c", "d", "e")
	s.Mend("b", "d", "e")
	s.Run(20 * sceneTTL)
	s.voting(0, "b", "c", "d", "e", "f")
	s.serves("b")
}
