package electorate

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The new voters of a joint electorate have no vote yet on the next electorate, and a node outside
// of the electorate has no vote either: its promises and acceptances would count for nothing, or
// twice.
func TestOnlyTheVotersThatDecideAnswerABallot(t *testing.T) {
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
func TestAPromiseForAnEarlierBallotIsNotCounted(t *testing.T) {
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
func TestTheNewestAcceptedValueIsProposedInAnyOrder(t *testing.T) {
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
func TestAPrepareDuringItsSaveIsAnswered(t *testing.T) {
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
func TestANodeThatHasAcceptedStartsNoBallotMeanwhile(t *testing.T) {
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
