package watchmerge

import (
	"slices"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// electorateOf returns an electorate; places lists the voters, a letter each, in the order of
// places.
func electorateOf(version uint64, places, voters, old string) quorum.Electorate {
	list := func(letters string) (all []vote.Elector) {
		for _, l := range letters {
			all = append(all, vote.Elector{Name: vote.NodeID(l), Dir: 1})
		}
		return all
	}
	return quorum.NewElectorate(&vote.Electorate{Version: version, Lineage: 1, Voters: list(voters), Old: list(old)}, list(places))
}

// toldAll returns a synced merger of the voters a, b and c with a lease that all three have
// reported.
func toldAll(t *testing.T) (*Merger, vote.View) {
	t.Helper()
	merger := New(electorateOf(1, "abc", "abc", ""))
	for place := range 3 {
		merger.AddReports(1, place, true, nil, 0)
	}
	if !merger.WantsQuery() {
		t.Fatal("no look is wanted")
	}
	merger.AddResult(1, &quorum.QueryResult{})
	s := vote.View{State: vote.Holding, Key: "k", Owner: vote.SessionID{Node: "n", Incarnation: 1}, Number: 1, Token: 16, Mode: vote.Exclusive, Time: 1}
	for place := range 3 {
		merger.AddReports(2, place, false, []vote.View{s}, 0)
	}
	merger.Drain(nil)
	if merger.WantsQuery() {
		merger.AddResult(2, &quorum.QueryResult{Views: []vote.View{s}})
		merger.Drain(nil)
	}
	return merger, s
}

func kindsOf(told []Event) (kinds []Kind) {
	for _, e := range told {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestAWatchGoesOnWithoutAGapWhileEnoughOfItsVotersStay(t *testing.T) {
	merger, s := toldAll(t)
	// d replaces a, and the other voters move: b, c and d are at places 1, 2 and 3 of the joint
	// electorate, and then at 0, 1 and 2.
	merger.Reconfigure(electorateOf(2, "abcd", "bcd", "abc"), []int{0, 1, 2})
	merger.AddReports(3, 3, true, nil, 0)
	if !merger.WantsQuery() {
		t.Fatal("no look at what the new voter would have told")
	}
	merger.AddResult(3, &quorum.QueryResult{Views: []vote.View{s}})
	merger.Reconfigure(electorateOf(3, "bcd", "bcd", ""), []int{-1, 0, 1, 2})
	if told := merger.Drain(nil); len(told) != 0 {
		t.Errorf("told %v of a change of the electorate", kindsOf(told))
	}
	freed := s
	freed.State = vote.Released
	merger.AddReports(4, 2, false, []vote.View{freed}, 0) // by d, now at place 2
	if told := merger.Drain(nil); len(told) != 1 || told[0].Kind != Released {
		t.Errorf("told %v, want the release", kindsOf(told))
	}
}

func TestAWatchWithoutAMajorityReportsAGapAndQueriesAgain(t *testing.T) {
	merger, s := toldAll(t)
	if merger.WantsQuery() {
		merger.AddResult(3, &quorum.QueryResult{Views: []vote.View{s}})
	}
	merger.Reconfigure(electorateOf(2, "abcde", "abcde", ""), []int{0, 1, 2})
	if told := merger.Drain(nil); len(told) != 0 {
		t.Errorf("told %v while three of five have told without a gap", kindsOf(told))
	}
	merger.Reconfigure(electorateOf(3, "cdefg", "cdefg", ""), []int{-1, -1, 0, 1, 2})
	if told := merger.Drain(nil); len(told) != 1 || told[0].Kind != Gap {
		t.Fatalf("told %v, want a gap", kindsOf(told))
	}
	if merger.WantsQuery() {
		merger.AddResult(4, nil) // this query began before the gap, and is of no use
	}
	for place := 1; place < 4; place++ {
		merger.AddReports(4, place, true, nil, 0)
	}
	if !merger.WantsQuery() {
		t.Fatal("no look is wanted though a majority tells")
	}
	merger.AddResult(5, &quorum.QueryResult{Views: []vote.View{s}})
	told := merger.Drain(nil)
	if len(told) == 0 || told[len(told)-1].Kind != Synced || told[0].Kind != Granted || !told[0].Current {
		t.Errorf("told %v, want the lease and that all is told", kindsOf(told))
	}
}

func TestTheVotersThatReportedALeaseMoveWithTheElectorate(t *testing.T) {
	merger := New(electorateOf(1, "abc", "abc", ""))
	for place := range 3 {
		merger.AddReports(1, place, true, nil, 0)
	}
	merger.WantsQuery()
	merger.AddResult(1, &quorum.QueryResult{})
	s := vote.View{State: vote.Holding, Key: "k", Owner: vote.SessionID{Node: "n", Incarnation: 1}, Number: 1, Token: 16, Mode: vote.Exclusive, Time: 1}
	merger.AddReports(2, 0, false, []vote.View{s}, 0) // by a, which then leaves
	merger.Reconfigure(electorateOf(2, "abcd", "bcd", "abc"), []int{0, 1, 2})
	merger.Reconfigure(electorateOf(3, "bcd", "bcd", ""), []int{-1, 0, 1, 2})
	merger.Drain(nil)
	merger.AddReports(3, 1, false, []vote.View{s}, 0) // by c alone
	if told := merger.Drain(nil); len(told) != 0 {
		t.Errorf("told %v by the word of one voter of three", kindsOf(told))
	}
	merger.AddReports(3, 0, false, []vote.View{s}, 0)
	if told := merger.Drain(nil); !slices.Equal(kindsOf(told), []Kind{Granted, Confirmed}) {
		t.Errorf("told %v by the words of two voters of three, want that the lease is granted, and firm", kindsOf(told))
	}
}

// A lease granted under the previous electorate may go on by a majority of the previous electorate:
// reports of a majority of the newer electorate don't end the lease.
func TestALeaseOfTheElectorateBeforeIsNotLostByWordsAlone(t *testing.T) {
	merger, s := toldAll(t)
	merger.Reconfigure(electorateOf(2, "abc", "ab", ""), []int{0, 1, 2})
	merger.Drain(nil)
	ended := s
	ended.State = vote.Ended
	merger.AddReports(3, 0, false, []vote.View{ended}, 0)
	merger.AddReports(3, 1, false, []vote.View{ended}, 0)
	if told := merger.Drain(nil); len(told) != 0 || !merger.InDoubt() {
		t.Errorf("told %v, in doubt: %t", kindsOf(told), merger.InDoubt())
	}
}
