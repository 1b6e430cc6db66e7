package electorate

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The new voters of a joint electorate have no vote yet on the next electorate, and a node outside
// of the electorate has no vote either: its promises and acceptances would count for nothing, or
// twice.
func TestOnlyTheVotersThatDecideAnswerAnAttempt(t *testing.T) {
	for _, row := range []struct {
		electorate string
		next       string
		answers    bool
	}{
		{"3: a b c", "4: a b (a b c)", true},
		{"3: b c d", "4: b c (b c d)", false},
		{"3: a b c (b c d)", "4: a b c", false}, // only b, c and d decide
		{"3: b c d (a b c)", "4: b c d", true},
	} {
		b := newBench(t, row.electorate)
		b.say("b", prepare(4, ballot(5, 7)))
		b.say("b", accept(ballot(5, 7), row.next))
		if saves := len(b.m.Saves()); (saves == 1) != row.answers {
			t.Errorf("%s: %d saves of what was promised", row.electorate, saves)
		}
	}
}

// A ballot that took too long is followed by a higher ballot. A late promise for the first is no
// evidence about the second: in between, the voter may have promised and accepted something else.
func TestAPromiseForAnEarlierAttemptIsNotCounted(t *testing.T) {
	b := newBench(t, "3: a b c")
	promised := func(from vote.NodeID, version, number uint64) {
		b.say(from, vote.Message{Kind: vote.KindPrepared, Version: version, Consensus: &vote.Consensus{
			Ballot: ballot(number, 1), Promised: ballot(number, 1), Dir: vote.Dir(conn(from)),
		}})
	}
	b.m.run(electorate("4: a b (a b c)"))
	b.m.run(electorate("4: a c (a b c)"))
	b.expect("a: prepare 1/1; b: prepare 1/1; c: prepare 1/1; a: prepare 2/1; b: prepare 2/1; c: prepare 2/1")
	promised("b", 4, 1)
	promised("c", 4, 1)
	b.expect("")
	promised("b", 3, 2) // nor does a promise for another version count
	promised("c", 5, 2)
	b.expect("")
	promised("b", 4, 2)
	promised("c", 4, 2)
	b.expect("a: accept 2/1 4: a, c (a, b, c); b: accept 2/1 4: a, c (a, b, c); c: accept 2/1 4: a, c (a, b, c)")
}

// Of two accepted values, the value of the later ballot may have been decided, in whatever order
// the two are reported.
func TestTheLastOfWhatWasAcceptedIsProposedInAnyOrder(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.m.run(electorate("4: a b c d e (a b c)"))
	b.sent()
	said := func(from vote.NodeID, accepted vote.Ballot, e string) {
		b.say(from, vote.Message{Kind: vote.KindPrepared, Version: 4, Consensus: &vote.Consensus{
			Ballot: ballot(1, 1), Promised: ballot(1, 1), Dir: vote.Dir(conn(from)),
			Accepted: accepted, Electorate: electorate(e),
		}})
	}
	said("b", ballot(1, 0), "4: a b (a b c)") // of an earlier incarnation
	said("c", ballot(1, 8), "4: a c (a b c)")
	if got := b.sent(); !strings.HasPrefix(got, "a: accept 1/1 4: a, c (a, b, c)") {
		t.Fatal(got)
	}
}

// A voter may answer the same message again and again. The answer counts once, and takes room once.
func TestAnAnswerThatIsRepeatedIsKeptOnce(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.m.run(electorate("4: a b (a b c)"))
	for range 100 {
		b.say("b", vote.Message{Kind: vote.KindPrepared, Version: 4, Consensus: &vote.Consensus{
			Ballot: ballot(1, 1), Promised: ballot(1, 1), Dir: 2,
		}})
	}
	if n := len(b.m.race.with); n != 1 {
		t.Errorf("one voter has answered, and %d answers are kept", n)
	}
}

// A prepare message repeated while the promise is being stored is answered together with the first,
// and not before.
func TestAQuestionIsAnsweredThatComesWhileItsAnswerIsBeingStored(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.say("b", prepare(4, ballot(5, 7)))
	under := b.m.Saves()
	if len(under) != 1 {
		t.Fatalf("%d saves", len(under))
	}
	b.say("b", prepare(4, ballot(5, 7)))
	b.expect("")
	b.m.Saved(b.now, under[0].Writes, "")
	b.expect("b: prepared 5/7; b: prepared 5/7")
}

// A node that has accepted another node's ballot lets this ballot come to its end, as a node does
// after a promise.
func TestANodeThatHasAcceptedMakesNoAttemptMeanwhile(t *testing.T) {
	b := newBench(t, "3: a b c")
	b.m.run(electorate("4: a b (a b c)"))
	b.say("b", accept(ballot(5, 7), "4: a b (a b c)"))
	if b.m.race != nil {
		t.Error("its own ballot goes on")
	}
	if b.m.raceAt < b.now.Slow.Add(b.m.raceTime()) {
		t.Error("it makes the next ballot before the other's time is over")
	}
}

// The minimum token of an electorate binds all voters. A minimum token beyond every clock is not
// accepted, and the proposer is ignored for a while.
func TestAnElectorateWithAnAbsurdFloorIsNotAccepted(t *testing.T) {
	b := scene(t, "3: a b c", "b c")
	b.m.Saves()
	m := accept(ballot(5, 7), "4: a b (a b c)")
	m.Consensus.Electorate.MinToken = vote.MaxMinToken
	b.say("b", m)
	if b.m.state.Accepted != (vote.Ballot{}) {
		t.Error("it accepts a minimum token at the end of all tokens")
	}
	if a := strings.Join(b.m.Alarms(), "\n"); !strings.Contains(a, `"b"`) || !strings.Contains(a, "minimum token of electorate 4") {
		t.Errorf("alarms: %q", a)
	}
	b.say("b", prepare(4, ballot(6, 7)))
	if b.m.state.Promised != (vote.Ballot{}) {
		t.Error("it heeds the next ballot of the same node at once")
	}
	b.say("c", accept(ballot(5, 8), "4: a b (a b c)"))
	if b.m.state.Accepted != ballot(5, 8) {
		t.Error("it doesn't accept what another node proposes")
	}
}

// A founder reports that it waits for the bootstrap. Once there is an electorate, the founder stops
// reporting so: otherwise a founder with a lost directory could bootstrap a second electorate with
// the first.
func TestAFounderOfAMeshThatWasFoundedWaitsForNoFounding(t *testing.T) {
	l := founded(t, "a b c")
	l.pass(2 * maxTTL)
	for _, at := range l.names {
		for _, name := range l.names {
			if o := l.units[at].m.others[name]; o != nil && o.report.founding {
				t.Errorf("%s tells %s that it waits to found", name, at)
			}
		}
	}
}

// A node with a slow disk knows an electorate before the node applies it. Until then the voter
// acknowledges under the version before, so the drain hasn't begun, and nothing further is
// proposed.
func TestNothingIsConcludedBeforeWhatIsKnownIsStored(t *testing.T) {
	b := newBench(t, "3: a b")
	b.say("b", vote.Message{Kind: vote.KindElectorate, Consensus: &vote.Consensus{
		Electorate: electorate("4: a b c (a b)"),
	}})
	under := b.m.Saves()
	if len(under) != 1 || b.m.Known().Version != 4 {
		t.Fatalf("%d saves, electorate %v", len(under), text(b.m.Known()))
	}
	for range 20 {
		b.pass(b.m.pollEvery())
		b.report("b", 10)
		b.report("c", 10)
	}
	if b.m.drain.begun || b.m.race != nil {
		t.Fatal("it counts itself among those who apply an electorate that it hasn't stored")
	}
	b.m.Saved(b.now, under[0].Writes, "")
	b.report("b", 10)
	b.report("c", 10)
	if !b.m.drain.begun {
		t.Error("it is stored, and the drain hasn't begun")
	}
}

// The version applied by a node with another directory is no evidence about the voter of the old
// directory.
func TestANodeWithAnotherDirectoryDoesNotGoByAnElectorateForTheVoter(t *testing.T) {
	b := scene(t, "3: a b c", "b c")
	if !b.m.applies(elector("b"), 0) {
		t.Fatal("b doesn't apply it, though it has said so")
	}
	b.m.others["b"].report.dir = 99
	if b.m.applies(elector("b"), 0) {
		t.Error("b applies it with another directory")
	}
}
