package electorate

import (
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The minimum token of an electorate binds all voters. A minimum token beyond every clock is not
// accepted, and the proposer is ignored for a while.
func TestAnElectorateWithAnAbsurdMinimumTokenIsNotAccepted(t *testing.T) {
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
