package quorum

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// electorateOf returns an electorate whose voters stand at places in the order of their letters, among these.
func electorateOf(version uint64, places, voters, old string) Electorate {
	list := func(letters string) (all []vote.Elector) {
		for _, l := range letters {
			all = append(all, vote.Elector{Name: vote.NodeID(l), Dir: 1})
		}
		return all
	}
	return Elected(&vote.Electorate{Version: version, Lineage: 1, Voters: list(voters), Old: list(old)}, list(places))
}

// toldAll returns a tale of voters a, b and c that is synced and has one lease, of which all of them have told.
func toldAll(t *testing.T) (*Tale, vote.Sight) {
	t.Helper()
	tale := NewTale(electorateOf(1, "abc", "abc", ""))
	for place := range 3 {
		tale.Hear(1, place, true, nil)
	}
	if !tale.WantsLook() {
		t.Fatal("no look is wanted")
	}
	tale.Show(1, &Shown{})
	s := vote.Sight{What: vote.Holding, Key: "k", Owner: vote.SessionID{Node: "n", Life: 1}, Number: 1, Token: 16, Mode: vote.Exclusive, Time: 1}
	for place := range 3 {
		tale.Hear(2, place, false, []vote.Sight{s})
	}
	tale.Drain(nil)
	if tale.WantsLook() {
		tale.Show(2, &Shown{Sights: []vote.Sight{s}})
		tale.Drain(nil)
	}
	return tale, s
}

func kindsOf(told []Told) (kinds []ToldKind) {
	for _, e := range told {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestATaleGoesOnWithoutAGapWhileEnoughOfItsVotersStay(t *testing.T) {
	tale, s := toldAll(t)
	// d comes in the place of a, and everyone after it moves: b, c, d stand at 1, 2, 3 of the joint electorate, and then at 0, 1, 2.
	tale.Reelect(electorateOf(2, "abcd", "bcd", "abc"), []int{0, 1, 2})
	tale.Hear(3, 3, true, nil)
	if !tale.WantsLook() {
		t.Fatal("no look at what the new voter would have told")
	}
	tale.Show(3, &Shown{Sights: []vote.Sight{s}})
	tale.Reelect(electorateOf(3, "bcd", "bcd", ""), []int{-1, 0, 1, 2})
	if told := tale.Drain(nil); len(told) != 0 {
		t.Errorf("told %v of a change of the electorate", kindsOf(told))
	}
	freed := s
	freed.What = vote.Freed
	tale.Hear(4, 2, false, []vote.Sight{freed}) // by d, which stands at 2 now
	if told := tale.Drain(nil); len(told) != 1 || told[0].Kind != ToldReleased {
		t.Errorf("told %v, want the release", kindsOf(told))
	}
}

func TestATaleWhoseVotersAreNoMajorityAnyMoreTellsOfAGapAndLooksAgain(t *testing.T) {
	tale, s := toldAll(t)
	if tale.WantsLook() {
		tale.Show(3, &Shown{Sights: []vote.Sight{s}})
	}
	tale.Reelect(electorateOf(2, "abcde", "abcde", ""), []int{0, 1, 2})
	if told := tale.Drain(nil); len(told) != 0 {
		t.Errorf("told %v while three of five have told without a gap", kindsOf(told))
	}
	tale.Reelect(electorateOf(3, "cdefg", "cdefg", ""), []int{-1, -1, 0, 1, 2})
	if told := tale.Drain(nil); len(told) != 1 || told[0].Kind != ToldGap {
		t.Fatalf("told %v, want a gap", kindsOf(told))
	}
	if tale.WantsLook() {
		tale.Show(4, nil) // begun before; of no use
	}
	for place := 1; place < 4; place++ {
		tale.Hear(4, place, true, nil)
	}
	if !tale.WantsLook() {
		t.Fatal("no look is wanted though a majority tells")
	}
	tale.Show(5, &Shown{Sights: []vote.Sight{s}})
	told := tale.Drain(nil)
	if len(told) == 0 || told[len(told)-1].Kind != ToldSynced || told[0].Kind != ToldGranted || !told[0].Current {
		t.Errorf("told %v, want the lease and that all is told", kindsOf(told))
	}
}

func TestWhoHasToldOfALeaseMovesWithTheVoters(t *testing.T) {
	tale := NewTale(electorateOf(1, "abc", "abc", ""))
	for place := range 3 {
		tale.Hear(1, place, true, nil)
	}
	tale.WantsLook()
	tale.Show(1, &Shown{})
	s := vote.Sight{What: vote.Holding, Key: "k", Owner: vote.SessionID{Node: "n", Life: 1}, Number: 1, Token: 16, Mode: vote.Exclusive, Time: 1}
	tale.Hear(2, 0, false, []vote.Sight{s}) // by a, which then goes
	tale.Reelect(electorateOf(2, "abcd", "bcd", "abc"), []int{0, 1, 2})
	tale.Reelect(electorateOf(3, "bcd", "bcd", ""), []int{-1, 0, 1, 2})
	tale.Drain(nil)
	tale.Hear(3, 1, false, []vote.Sight{s}) // by c alone
	if told := tale.Drain(nil); len(told) != 0 {
		t.Errorf("told %v by the word of one voter of three", kindsOf(told))
	}
	tale.Hear(3, 0, false, []vote.Sight{s})
	if told := tale.Drain(nil); len(told) != 1 || told[0].Kind != ToldFirm {
		t.Errorf("told %v by the words of two voters of three, want that the lease is firm", kindsOf(told))
	}
}
