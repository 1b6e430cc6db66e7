package mismatch

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const maxTTL = 10 * time.Second

// world drives the machine of one voter.
type world struct {
	t   *testing.T
	m   *Machine
	now vote.Instant
}

func ids(names string) (all []vote.NodeID) {
	for _, n := range strings.Fields(names) {
		all = append(all, vote.NodeID(n))
	}
	return all
}

func list(names string) vote.Terms { return vote.Terms{Voters: ids(names), MaxTTL: maxTTL} }

// start makes the machine of a voter at a time far from zero.
func start(t *testing.T, self, voters string) *world {
	w := &world{t: t, now: vote.Instant(time.Hour)}
	w.m = New(vote.SessionID{Node: vote.NodeID(self), Incarnation: 100}, list(voters), w.at())
	return w
}

func (w *world) at() vote.Now { return vote.Now{Fast: w.now, Slow: w.now} }

func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.m.Tick(w.at())
}

// sees lets the voter meet a node that has run for a while.
func (w *world) sees(name, voters string, s vote.Standing, up time.Duration) {
	w.seesTerms(name, list(voters), s, up)
}

func (w *world) seesTerms(name string, terms vote.Terms, s vote.Standing, up time.Duration) {
	w.seesDecided(name, terms, 0, s, up)
}

// seesDecided lets the voter meet a node with a decided maximum TTL.
func (w *world) seesDecided(name string, terms vote.Terms, longest time.Duration, s vote.Standing, up time.Duration) {
	sighting := vote.Sighting{Peer: vote.SessionID{Node: vote.NodeID(name), Incarnation: vote.Incarnation(w.now.Add(-up))}, Terms: terms}
	sighting.Account = vote.Account{Standing: s, Counted: up, Up: up, Addr: name + ":7950", LongestTTL: longest}
	w.m.See(w.at(), &sighting)
}

func (w *world) want(p Phase) {
	w.t.Helper()
	if got := w.m.Phase(); got != p {
		w.t.Fatalf("%v, want %v; %s", got, p, w.m.reason)
	}
}

const (
	counts = vote.StandingCounting
	silent = vote.StandingQuiet
	leaves = vote.StandingLeaving
	none   = vote.StandingNone
)

func TestAVoterWaitsForTheOldListToLoseItsMajority(t *testing.T) {
	w := start(t, "d", "a b c d e")
	w.sees("a", "a b c", counts, time.Hour)
	w.want(PhaseWaiting)
	w.sees("c", "a b c d e", silent, time.Second)
	w.m.Own(w.at(), Own{Alive: 2})
	w.want(PhaseWaiting) // b may still use the old list, though b was never met
	w.pass(10 * maxTTL)
	w.want(PhaseWaiting) // a long silence of a is no evidence
	if text := w.m.Refusal(w.at()); !strings.Contains(text, "Voters is [a b c d e] here and [a b c] at a") || !strings.Contains(text, "a (a:7950), which counts") {
		t.Errorf("the refusal doesn't name both values and the node: %q", text)
	}
	w.sees("b", "a b c d e", silent, time.Second)
	w.want(PhaseSettling)
	w.pass(maxTTL - 1)
	w.want(PhaseSettling)
	w.pass(1)
	w.want(PhaseFree)
	w.m.Counts(w.at())
	w.want(PhaseCounting)
	w.sees("a", "a b c", counts, 2*time.Hour)
	w.want(PhaseCounting) // a alone is no majority
}

func TestAGoodbyeIsEvidence(t *testing.T) {
	w := start(t, "d", "d e f")
	for _, n := range []string{"a", "b", "c"} {
		w.sees(n, "a b c", counts, time.Hour)
	}
	w.sees("a", "a b c", leaves, time.Hour)
	w.want(PhaseWaiting)
	w.sees("b", "a b c", leaves, time.Hour)
	w.want(PhaseSettling)
	w.sees("b", "a b c", counts, time.Hour) // an earlier message comes late
	w.want(PhaseSettling)
	w.sees("b", "a b c", silent, 0) // another process
	w.want(PhaseWaiting)
}

func TestAnEarlierProcessesWordDoesntUndoItsSuccessors(t *testing.T) {
	w := start(t, "c", "a b c d e")
	w.sees("a", "a b c", counts, time.Hour)
	w.sees("b", "a b c d e", silent, time.Second)
	w.want(PhaseSettling)
	w.sees("b", "a b c", counts, time.Hour)
	w.want(PhaseSettling)
}

func TestTheLongerMaxTTLIsWaitedFor(t *testing.T) {
	w := start(t, "a", "a b c")
	long := list("a b c")
	long.MaxTTL = 3 * maxTTL
	w.seesTerms("b", long, counts, time.Hour)
	w.seesTerms("c", long, counts, time.Hour)
	w.want(PhaseWaiting)
	w.sees("b", "a b c", silent, time.Second)
	w.want(PhaseSettling)
	w.pass(3*maxTTL - 1)
	w.want(PhaseSettling)
	w.pass(1)
	w.want(PhaseFree)
}

// The processes of a mesh with dynamic membership are configured with a MaxTTL that their voters
// have not decided yet, or decided a moment ago. So their leases may be longer than their
// configuration says.
func TestADecidedMaxTTLIsWaitedFor(t *testing.T) {
	dynamic := list("a b c")
	dynamic.Dynamic = true
	const long = 3 * maxTTL

	w := start(t, "a", "a b c")
	w.seesDecided("b", dynamic, long, counts, time.Hour)
	w.seesDecided("c", dynamic, maxTTL, counts, time.Hour) // c may know an older electorate
	w.want(PhaseWaiting)
	w.seesDecided("b", dynamic, maxTTL, leaves, time.Hour)
	w.sees("c", "a b c", silent, time.Second)
	w.want(PhaseSettling)
	w.pass(long - 1)
	w.want(PhaseSettling)
	w.pass(1)
	w.want(PhaseFree)

	w = start(t, "a", "a b c") // told during the wait, by a voter that leaves
	w.seesDecided("b", dynamic, 0, leaves, time.Hour)
	w.want(PhaseSettling)
	w.pass(maxTTL - 1)
	w.seesDecided("c", dynamic, long, leaves, time.Hour)
	w.pass(long - 1)
	w.want(PhaseSettling)
	w.pass(1)
	w.want(PhaseFree)

	w = start(t, "a", "a b c") // a node without a vote
	w.seesDecided("x", dynamic, long, none, time.Hour)
	w.seesDecided("b", dynamic, 0, leaves, time.Hour)
	w.pass(long - 1)
	w.want(PhaseSettling)
	w.pass(1)
	w.want(PhaseFree)

	w = start(t, "a", "a b c") // a decided value that isn't longer changes no wait
	w.seesDecided("b", dynamic, maxTTL/2, leaves, time.Hour)
	w.pass(maxTTL / 2)
	w.seesDecided("b", dynamic, maxTTL, leaves, time.Hour)
	w.pass(maxTTL / 2)
	w.want(PhaseFree)
}

func TestOfListsThatWaitTheOneWithMoreVotersThereGoesOn(t *testing.T) {
	w := start(t, "a", "a b c")
	w.sees("m", "m", silent, time.Second)
	w.want(PhaseWaiting) // a voter each
	w.m.Own(w.at(), Own{Alive: 1})
	w.want(PhaseSettling)
	w.m.Own(w.at(), Own{})
	w.pass(maxTTL)
	w.want(PhaseWaiting) // the majority must last
	w.m.Own(w.at(), Own{Alive: 2})
	w.pass(maxTTL)
	w.want(PhaseFree)

	w = start(t, "m", "m")
	w.sees("a", "a b c", silent, time.Second)
	w.sees("b", "a b c", silent, time.Second)
	w.pass(10 * maxTTL)
	w.want(PhaseWaiting)
}

func TestARestartBesideAMisconfiguredNode(t *testing.T) {
	w := start(t, "a", "a b c")
	w.sees("m", "m", silent, time.Hour)
	w.m.Own(w.at(), Own{Alive: 2, Counting: 2, Decides: true})
	w.want(PhaseFree)

	w = start(t, "a", "a b c")
	w.m.Own(w.at(), Own{Alive: 2, Counting: 2, Decides: true})
	w.sees("m", "m", counts, time.Hour)
	w.want(PhaseWaiting) // both count: one of the two lists is about to give way
}

func TestANodeWithoutAVoteStopsNoVoter(t *testing.T) {
	w := start(t, "a", "a b c")
	w.sees("x", "m n o", none, time.Hour)
	w.want(PhaseFree)
	if r := w.m.Refused(w.at()); len(r) != 1 || r[0].Reason != "Voters is [a b c] here and [m n o] at x" {
		t.Errorf("refused %+v", r)
	}
	w.pass(shownFor + 1)
	if r := w.m.Refused(w.at()); len(r) != 0 {
		t.Errorf("refused without end: %+v", r)
	}
}

func TestKindsThatDifferAreConfigurationsThatDiffer(t *testing.T) {
	w := start(t, "a", "a b c")
	dynamic := list("a b c")
	dynamic.Dynamic = true
	w.seesTerms("x", dynamic, none, time.Hour)
	w.want(PhaseFree)
	w.seesTerms("x", dynamic, counts, time.Hour) // voted in, though x was no founder
	w.want(PhaseWaiting)
	if text := w.m.reason; !strings.Contains(text, "StateDir is not set here and set at x") {
		t.Errorf("%q", text)
	}
	w.seesTerms("x", dynamic, leaves, time.Hour)
	w.want(PhaseSettling)
}

// byCount returns the terms of a mesh that is born by count.
func byCount(expect int) vote.Terms {
	return vote.Terms{MaxTTL: maxTTL, Dynamic: true, Birth: vote.Birth{Expect: expect, MinVoters: vote.MinVoters(expect)}}
}

// Both sides of a meeting decide alike.
func TestWhichConfigurationWithdraws(t *testing.T) {
	for _, c := range []struct {
		name         string
		ours, theirs vote.Terms
		age          time.Duration // for how long they have counted; we have for an hour
		gives        bool
	}{
		{"the shorter list", list("a b c"), list("d e f g h"), time.Minute, true},
		{"the longer list", list("a b c"), list("d"), 2 * time.Hour, false},
		{"the younger", list("a b c"), list("d e f"), 2 * time.Hour, true},
		{"the older", list("a b c"), list("d e f"), time.Minute, false},
		{"of equals the later text", list("a b c"), list("b e f"), time.Hour, false},
		{"of equals the earlier text", list("a c d"), list("a b c"), time.Hour, true},
		{"the larger Expect beside a list", byCount(3), list("d"), 2 * time.Hour, false},
		{"the shorter list beside an Expect", list("a"), byCount(3), time.Minute, true},
		{"the longer list beside an Expect", list("a b c d e"), byCount(3), 2 * time.Hour, false},
		{"the smaller Expect", byCount(1), byCount(3), time.Minute, true},
		{"the larger Expect", byCount(3), byCount(1), 2 * time.Hour, false},
		{"Expect 1 beside a list of one, whose mesh may have grown", byCount(1), list("d"), time.Minute, true},
		{"a list of one beside Expect 1", list("a"), byCount(1), 2 * time.Hour, false},
		{"the younger of a list and an Expect", list("a b c"), byCount(3), 2 * time.Hour, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, "a", "a b c")
			w.m = New(w.m.self, c.ours, w.at())
			w.m.Counts(w.at())
			w.pass(time.Hour)
			voter := "x"
			if there := c.theirs.Voters; len(there) > 0 {
				voter = string(there[len(there)-1])
			}
			w.seesTerms(voter, c.theirs, counts, c.age)
			if gave := w.m.Phase() == PhaseWithdrawn; gave != c.gives {
				t.Errorf("gave way: %v", gave)
			}
			if a := w.m.Alarms(); len(a) > 0 != c.gives || c.gives && !strings.Contains(a[0], "may have had two holders") {
				t.Errorf("alarms %q", a)
			}
		})
	}
}

func TestAListWithoutAMajorityGivesWay(t *testing.T) {
	w := start(t, "a", "a b c d e") // the list shrinks to a shorter list
	w.m.Counts(w.at())
	for _, n := range []string{"c", "d", "e"} {
		w.sees(n, "c d e", silent, time.Second)
		w.want(PhaseCounting)
	}
	w.pass(maxTTL)
	w.sees("c", "c d e", counts, maxTTL+time.Second)
	w.want(PhaseWithdrawn)
	if a := w.m.Alarms(); len(a) != 1 || strings.Contains(a[0], "two holders") {
		t.Errorf("alarms %q", a)
	}
}

func TestTheNewerProcessOfANameGivesWayUntilItsEnd(t *testing.T) {
	w := start(t, "a", "a b c")
	w.m.Counts(w.at())
	w.pass(time.Minute)
	w.sees("a", "a b c", counts, time.Second)
	w.want(PhaseCounting)
	if a := w.m.Alarms(); len(a) != 1 || !strings.Contains(a[0], "it withdraws") {
		t.Errorf("alarms %q", a)
	}
	w.sees("a", "a b c", counts, time.Hour)
	w.want(PhaseDuplicate)
	if a := w.m.Alarms(); len(a) != 1 || !strings.Contains(a[0], "may have had two holders") || !strings.Contains(a[0], "1m0s ago") {
		t.Errorf("alarms %q", a)
	}
	w.pass(100 * maxTTL)
	w.want(PhaseDuplicate)
	if w.m.Refusal(w.at()) == "" {
		t.Error("its calls aren't refused")
	}
}

func TestANewcomerComesBackWhenTheOtherOfItsNameIsGone(t *testing.T) {
	w := start(t, "a", "a b c")
	w.sees("a", "a b c", counts, time.Hour)
	w.want(PhaseDuplicate)
	w.pass(maxTTL / 2)
	w.sees("a", "a b c", counts, time.Hour)
	w.pass(maxTTL - 1)
	w.want(PhaseDuplicate)
	w.pass(1)
	w.want(PhaseFree)
}

// If all voters were restarted with a shorter MaxTTL, only a node without a vote may know the
// longer MaxTTL, and may hold a lease granted by the earlier processes.
func TestTheLeasesOfANodeWithoutAVoteAreWaitedFor(t *testing.T) {
	longer := func(factor int) vote.Terms {
		terms := list("a b c")
		terms.MaxTTL = time.Duration(factor) * maxTTL
		return terms
	}
	w := start(t, "a", "a b c")
	w.seesTerms("x", longer(2), none, time.Hour)
	w.want(PhaseSettling)
	w.pass(maxTTL)
	w.seesTerms("y", longer(3), none, time.Hour)
	w.pass(maxTTL)
	w.want(PhaseSettling)
	w.seesTerms("x", longer(2), none, time.Hour) // seen again, x holds no newer lease
	w.pass(2*maxTTL - 1)
	w.want(PhaseSettling)
	w.pass(1)
	w.want(PhaseFree)
	w.m.Counts(w.at())
	w.seesTerms("z", longer(9), none, time.Hour)
	w.want(PhaseCounting) // z stops no voter that counts

	w = start(t, "a", "a b c")
	w.seesTerms("x", longer(2), none, time.Hour)
	w.m.Own(w.at(), Own{Alive: 2, Counting: 2, Decides: true})
	w.want(PhaseFree) // most voters count: these have waited, or have granted x nothing

	w = start(t, "a", "a b c")
	w.seesTerms("x", longer(3), none, time.Hour)
	w.sees("b", "m n b", silent, time.Second)
	w.sees("b", "a b c", silent, 0)
	w.pass(2 * maxTTL) // another list alone costs a single MaxTTL
	w.want(PhaseSettling)
	w.pass(maxTTL)
	w.want(PhaseFree)
}

// During a pause the voter meets another voter that ran with a third configuration until now. The
// promises of the other voter last for a MaxTTL from now on.
func TestAConfigurationMetDuringAPauseProlongsThePause(t *testing.T) {
	w := start(t, "a", "a b c")
	w.sees("b", "a b", silent, time.Second)
	w.want(PhaseSettling) // without this node the other list has no majority
	w.pass(maxTTL / 2)
	w.sees("c", "a c", silent, time.Second)
	w.want(PhaseSettling)
	w.pass(maxTTL - 1)
	w.want(PhaseSettling)
	w.pass(1)
	w.want(PhaseFree)
}

// A node without a vote and with a mistaken MaxTTL delays a restart only until most voters count,
// even if the voter also meets a voter of another list.
func TestAMistakenMaxTTLDelaysNoVoterBesideAMajority(t *testing.T) {
	w := start(t, "a", "a b c")
	mistaken := list("a b c")
	mistaken.MaxTTL = 100 * maxTTL
	w.seesTerms("x", mistaken, none, time.Hour)
	w.sees("b", "a b", silent, time.Second)
	w.sees("b", "a b c", silent, 0)
	w.pass(maxTTL)
	w.want(PhaseSettling)
	w.m.Own(w.at(), Own{Alive: 2, Counting: 2, Decides: true})
	w.want(PhaseFree)
}

// The operator is told of the node with leases that a voter waits for, as long as the wait lasts:
// also once the node was forgotten, and after a process with its name has the right MaxTTL. Nothing
// is told to a voter that soon meets a majority that counts.
func TestTheNodeWhoseLeasesAreWaitedForStaysListed(t *testing.T) {
	mistaken := list("a b c")
	mistaken.MaxTTL = 24 * time.Hour
	w := start(t, "a", "a b c")
	w.seesTerms("x", mistaken, none, time.Hour)
	if next := w.m.Next(); next != w.now.Add(graceFor) {
		t.Errorf("the next tick is %v from now", next.Sub(w.now))
	}
	w.pass(graceFor)
	if n := w.m.Notices(); len(n) != 1 || !strings.Contains(n[0], "MaxTTL is 24h0m0s on x (x:7950) and 10s on a") {
		t.Errorf("the operator is told %q", n)
	}
	w.sees("x", "a b c", none, 0)
	for i := range maxPeers + 10 {
		w.pass(time.Second)
		w.sees(fmt.Sprintf("cli-%d", i), "a b c", none, time.Second)
	}
	if all := w.m.Refused(w.at()); len(all) != 1 || all[0].Peer.Node != "x" || all[0].Seen < time.Hour {
		t.Errorf("refused: %+v", all)
	}
	w.pass(w.m.Remaining(w.at()))
	w.want(PhaseFree)
	if all, n := w.m.Refused(w.at()), w.m.Notices(); len(all)+len(n) != 0 {
		t.Errorf("refused: %+v; told: %q", all, n)
	}

	mistaken.MaxTTL = maxTTL + time.Second
	w = start(t, "a", "a b c")
	w.seesDecided("x", mistaken, math.MaxInt64, none, time.Hour) // no voter grants so much
	w.pass(graceFor)
	if n := w.m.Notices(); len(n) != 1 || !strings.Contains(n[0], "MaxTTL is 24h0m0s, as its voters decided, on x (x:7950) and 10s on a") {
		t.Errorf("the operator is told %q", n)
	}

	w = start(t, "a", "a b c")
	w.seesTerms("x", mistaken, none, time.Hour)
	w.pass(graceFor / 2)
	w.m.Own(w.at(), Own{Alive: 2, Counting: 2, Decides: true})
	w.pass(graceFor)
	if n := w.m.Notices(); len(n) != 0 {
		t.Errorf("the operator is told %q", n)
	}
}
