package watchmerge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// harness is a tale under test.
type harness struct {
	t      *testing.T
	merger *Merger
}

func newHarness(t *testing.T, voters int) *harness {
	t.Helper()
	var names []vote.NodeID
	for i := range voters {
		names = append(names, vote.NodeID(fmt.Sprintf("v%d", i)))
	}
	fixed, err := quorum.Fixed(names)
	e := quorum.NewElectorate(&fixed, fixed.Voters)
	if err != nil {
		t.Fatal(err)
	}
	return &harness{t: t, merger: New(e)}
}

// begin has all voters tell, and shows a picture.
func (r *harness) begin(views ...vote.View) {
	r.t.Helper()
	for i := range r.merger.electorate.Size() {
		r.merger.AddReports(0, i, true, nil)
	}
	r.show(views...)
}

func (r *harness) show(views ...vote.View) {
	r.t.Helper()
	if !r.merger.WantsQuery() {
		r.t.Fatal("it wants no look")
	}
	r.merger.AddResult(0, &quorum.QueryResult{Views: views})
}

func (r *harness) hear(place int, views ...vote.View) {
	for i := range views {
		views[i].Token += vote.BlockSize - 1 // voters know the last of a lease's run
	}
	r.merger.AddReports(0, place, false, views)
}

// want checks what was told since the last time.
func (r *harness) want(words ...string) {
	r.t.Helper()
	var got []string
	for _, e := range r.merger.Drain(nil) {
		if e.Kind != Confirmed {
			got = append(got, short(e))
		}
	}
	if !slices.Equal(got, words) {
		r.t.Errorf("told %q, want %q", got, words)
	}
}

func short(e Event) string {
	word := map[Kind]string{
		Granted: "granted", Released: "released", Lost: "lost", Waiting: "waits", Changed: "changed", Gap: "gap", Synced: "synced",
	}[e.Kind]
	if e.Kind == Gap || e.Kind == Synced {
		return word
	}
	if e.Current {
		word += "!"
	}
	if e.Kind == Waiting {
		return fmt.Sprintf("%s %s%d", word, e.View.Owner.Node, e.View.Number)
	}
	return fmt.Sprintf("%s %s%d@%d", word, e.View.Owner.Node, e.View.Number, e.View.Token)
}

func see(what vote.State, mode vote.Mode, who string, token vote.Token) vote.View {
	return vote.View{State: what, Key: "k", Owner: vote.SessionID{Node: vote.NodeID(who), Incarnation: 1}, Number: vote.Number(token), Mode: mode, Token: token}
}

func TestATaleTellsOnceWhatAMajorityTells(t *testing.T) {
	r := newHarness(t, 3)
	r.begin()
	r.want("synced")
	for place := range 3 {
		r.hear(place, see(vote.Waiting, vote.Exclusive, "b", 40), see(vote.Holding, vote.Exclusive, "a", 20))
	}
	r.want("waits b40", "granted a20@20")
	for place := range 3 {
		r.hear(place, see(vote.Released, vote.Exclusive, "a", 20), see(vote.Holding, vote.Exclusive, "b", 40))
	}
	r.want("released a20@20", "granted b40@40")
}

func TestAVotersEndIsOnlyThatVotersLoss(t *testing.T) {
	r := newHarness(t, 3)
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

// hears has a majority of three say the same.
func (r *harness) hears(views ...vote.View) {
	for place := range 2 {
		r.hear(place, slices.Clone(views)...)
	}
}

// doubted demands that a key is in doubt, once it has been for long enough, and shows what looks at
// it show.
func (r *harness) doubted(looks int, views ...vote.View) {
	r.t.Helper()
	for _, d := range r.merger.Doubts(0, 16) { // that has been in doubt for a while
		r.merger.AddKeyResult(0, d, nil)
	}
	for range looks {
		doubts := r.merger.Doubts(0, 16)
		if len(doubts) != 1 || doubts[0].Key != "k" {
			r.t.Fatalf("%v are in doubt", doubts)
		}
		if again := r.merger.Doubts(0, 16); len(again) != 0 {
			r.t.Fatalf("%v are looked at once more", again)
		}
		r.want()
		r.merger.AddKeyResult(0, doubts[0], &quorum.QueryResult{Views: views})
	}
}

func (r *harness) sure() {
	r.t.Helper()
	if r.merger.InDoubt() {
		r.t.Fatal("something is in doubt")
	}
}

// One voter hasn't heard that the earlier lease was granted, and another not that it was given
// back.
func TestALeaseDoesntOvertakeTheOneBefore(t *testing.T) {
	a, b := see(vote.Holding, vote.Exclusive, "a", 20), see(vote.Holding, vote.Exclusive, "b", 40)
	over := see(vote.Released, vote.Exclusive, "a", 20)
	r := newHarness(t, 3)
	r.begin()
	r.hear(2, b)
	r.want("synced") // its word could be the first of many
	r.hear(0, a)
	r.want()
	r.hear(0, over, b) // a majority tells of b, and what was before it comes first
	r.want()
	r.hear(1, a)
	r.want("granted a20@20", "released a20@20", "granted b40@40")
	r.hear(1, over, b)
	r.hear(2, a, over)
	r.want()
	r.sure()
}

// What a voter has overheard doesn't count: it may still have a vote for the lease before, of whose
// end it is yet to tell.
func TestAWordThatWasOverheardDoesntCount(t *testing.T) {
	a, b := see(vote.Holding, vote.Exclusive, "a", 20), see(vote.Holding, vote.Exclusive, "b", 40)
	heard := see(vote.GrantedElsewhere, vote.Exclusive, "b", 40)
	r := newHarness(t, 3)
	r.begin()
	r.hear(2, b)
	r.hear(1, heard) // and it has a vote for a
	r.want("synced")
	r.hear(1, a, see(vote.Released, vote.Exclusive, "a", 20))
	r.hear(0, a, see(vote.Released, vote.Exclusive, "a", 20))
	r.want("granted a20@20", "released a20@20")
	r.hear(0, b)
	r.want("granted b40@40")
	r.sure()
}

func TestTheEndOfALeaseIsWaitedFor(t *testing.T) {
	a, b, c := see(vote.Holding, vote.Exclusive, "a", 20), see(vote.Holding, vote.Exclusive, "b", 40), see(vote.Holding, vote.Exclusive, "c", 60)
	r := newHarness(t, 3)
	r.begin()
	r.hears(a)
	r.want("synced", "granted a20@20")
	r.hears(b)
	r.want()
	r.hear(2, see(vote.Released, vote.Exclusive, "a", 20))
	r.want("released a20@20", "granted b40@40")
	r.hears(c)
	r.want()
	r.doubted(queriesToSettle, c)
	r.want("lost b40@40", "granted c60@60")
	r.sure()
	r.hear(1, see(vote.Holding, vote.Exclusive, "x", 50)) // never told, and over by now
	r.want("gap", "granted! c60@60", "synced")
}

func TestALeaseInDoubtIsSettled(t *testing.T) {
	a, b := see(vote.Holding, vote.Exclusive, "a", 20), see(vote.Holding, vote.Exclusive, "b", 40)
	r := newHarness(t, 3)
	r.begin()
	r.want("synced")
	r.hear(0, a)
	r.doubted(queriesToSettle, a)
	r.want("granted a20@20")
	r.sure()
	r.hear(0, see(vote.Ended, vote.Exclusive, "a", 20))
	r.doubted(queriesToSettle, a) // its owner goes on at the others
	r.want()
	r.sure()
	r.hear(0, see(vote.Ended, vote.Exclusive, "a", 20))
	r.doubted(queriesToSettle)
	r.want("lost a20@20")
	r.hear(0, b)
	r.doubted(queriesToSettle) // one voter told of it, and nothing is left
	r.want("granted b40@40", "lost b40@40")
	r.sure()
}

// A word that comes while a key is looked at is newer than the look.
func TestAWordIsNewerThanALookUnderWay(t *testing.T) {
	a := see(vote.Holding, vote.Exclusive, "a", 20)
	r := newHarness(t, 3)
	r.begin()
	r.hear(0, a)
	r.merger.Doubts(0, 16)
	for range queriesToSettle {
		doubts := r.merger.Doubts(0, 16)
		if len(doubts) != 1 {
			t.Fatal("nothing is in doubt")
		}
		r.hear(0, see(vote.Changed, vote.Exclusive, "a", 20))
		r.merger.AddKeyResult(0, doubts[0], &quorum.QueryResult{})
		if again := r.merger.Doubts(0, 16); len(again) != 0 {
			t.Fatal("it is in doubt for too short a time")
		}
	}
	r.want("synced")
	promised := see(vote.Promised, vote.Exclusive, "a", 20)
	for range queriesToSettle {
		doubts := r.merger.Doubts(0, 16)
		r.merger.AddKeyResult(0, doubts[0], &quorum.QueryResult{Views: []vote.View{promised}}) // that says neither
		doubts = r.merger.Doubts(0, 16)
		r.merger.AddKeyResult(0, doubts[0], nil)
	}
	r.want()
	r.hear(1, a)
	r.want("granted a20@20")
	r.sure()
}

// A voter that was cut off tells of what it had promised before: a vote for the same request, which
// lapsed.
func TestTheEndOfAVoteBeforeTheLeaseIsNoneOfTheLease(t *testing.T) {
	a := see(vote.Holding, vote.Exclusive, "a", 40)
	before := see(vote.Ended, vote.Exclusive, "a", 40)
	before.Token = 20
	r := newHarness(t, 3)
	r.begin()
	r.hears(a)
	r.want("synced", "granted a40@40")
	r.hears(before)
	r.want()
	r.sure()
	r.hears(see(vote.Ended, vote.Exclusive, "a", 40))
	r.want("lost a40@40")
}

// A writer that lets others in before it is told stands against what came before it, and not as a
// reader that was told.
func TestAWriterThatLetsOthersInIsToldInItsTurn(t *testing.T) {
	a, b := see(vote.Holding, vote.Exclusive, "a", 20), see(vote.Holding, vote.Exclusive, "b", 40)
	r := newHarness(t, 3)
	r.begin()
	r.hear(0, b)
	r.hear(0, see(vote.Changed, vote.Shared, "b", 40))
	r.hear(1, a, see(vote.Released, vote.Exclusive, "a", 20))
	r.hear(2, a)
	r.hear(1, b)
	r.want("synced", "granted a20@20", "released a20@20", "granted b40@40")
}

// An upgrade that its node doesn't live to tell of leaves the reader's end to be told.
func TestAnUpgradeThatComesToNothing(t *testing.T) {
	a := see(vote.Holding, vote.Shared, "a", 20)
	up := see(vote.Holding, vote.Exclusive, "a", 40)
	up.Beside = 20
	r := newHarness(t, 3)
	r.begin()
	r.hears(a)
	r.hear(0, up)
	r.hears(see(vote.Released, vote.Shared, "a", 20))
	r.want("synced", "granted a20@20")
	r.doubted(queriesToSettle)
	r.want("changed a40@40", "lost a40@40")
	r.sure()
}

// A look may show a lease that comes too late, as a word may.
func TestALookThatShowsAnOlderLeaseIsAGap(t *testing.T) {
	a, b := see(vote.Holding, vote.Exclusive, "a", 20), see(vote.Holding, vote.Exclusive, "b", 40)
	r := newHarness(t, 3)
	r.begin()
	r.hears(b)
	r.want("synced", "granted b40@40")
	r.merger.Requery()
	r.show(a)
	r.want("gap", "granted! b40@40", "synced")
	r.hear(0, see(vote.Ended, vote.Exclusive, "b", 40))
	r.doubted(1, b, see(vote.Holding, vote.Exclusive, "x", 30))
	r.want("gap", "granted! b40@40", "synced")
}

// Who begins to watch is told of what there is only when all is told that the look has shown, also
// what a voter has told of since the look began.
func TestWhatALookHasShownIsToldBeforeTheStateIsWhole(t *testing.T) {
	a := see(vote.Holding, vote.Exclusive, "a", 20)
	r := newHarness(t, 3)
	r.begin()
	r.want("synced")
	r.merger.Requery()
	if !r.merger.WantsQuery() {
		t.Fatal("it wants no look")
	}
	r.hear(0, a)
	r.merger.AddResult(0, &quorum.QueryResult{Views: []vote.View{a}})
	if look, whole := r.merger.Applied(); look != 2 || whole {
		t.Errorf("look %d is taken in, and the state is whole: %t", look, whole)
	}
	r.hear(1, a)
	r.want("granted a20@20")
	if _, whole := r.merger.Applied(); !whole {
		t.Error("the state isn't whole")
	}
}

// A look at a key that comes while there is a gap says nothing: what all voters show is on its way.
func TestALookAtAKeyAmidAGapSaysNothing(t *testing.T) {
	a := see(vote.Holding, vote.Exclusive, "a", 20)
	r := newHarness(t, 3)
	r.begin()
	r.hears(a)
	r.want("synced", "granted a20@20")
	r.hear(0, see(vote.Ended, vote.Exclusive, "a", 20))
	r.doubted(queriesToSettle - 1)
	doubts := r.merger.Doubts(0, 16)
	if len(doubts) != 1 {
		t.Fatal("nothing is in doubt")
	}
	r.merger.AddReports(0, 0, true, nil)
	r.merger.AddReports(0, 1, true, nil)
	r.want("gap")
	r.merger.AddKeyResult(0, doubts[0], &quorum.QueryResult{})
	r.show(a)
	r.want("granted! a20@20", "synced")
}

func TestALeaseBehindWhichAKeyRestsIsOver(t *testing.T) {
	r := newHarness(t, 3)
	r.begin()
	r.hears(see(vote.Holding, vote.Exclusive, "a", 20))
	r.want("synced", "granted a20@20")
	r.hear(0, see(vote.Ended, vote.Exclusive, "a", 20))
	r.doubted(queriesToSettle, see(vote.Delayed, vote.Exclusive, "a", 20))
	r.want("lost a20@20")
}

// What a picture shows as promised isn't held for it, though a voter has said so.
func TestALeaseThatIsOnlyPromisedIsNotPartOfTheState(t *testing.T) {
	a := see(vote.Holding, vote.Exclusive, "a", 20)
	r := newHarness(t, 3)
	for place := range 3 {
		r.merger.AddReports(0, place, true, nil)
	}
	r.hear(0, a)
	r.show(see(vote.Promised, vote.Exclusive, "a", 20))
	r.want("synced")
	r.hear(1, a)
	r.want("granted a20@20")
}

func TestAKeyOfWhichNothingIsLeftIsForgotten(t *testing.T) {
	r := newHarness(t, 3)
	r.begin()
	r.hears(see(vote.Waiting, vote.Exclusive, "a", 20))
	r.want("synced", "waits a20")
	r.hear(0, see(vote.Released, vote.Exclusive, "a", 20))
	if n := len(r.merger.keys); n != 0 {
		t.Errorf("%d keys are remembered", n)
	}
}

// A look at the doubted keys is bounded, and goes on where the one before ended.
func TestDoubtsAreBounded(t *testing.T) {
	r := newHarness(t, 3)
	r.begin()
	r.want("synced")
	name := func(i int) vote.Key { return vote.Key(fmt.Sprintf("%04d", i)) }
	begin := func(from, to int) {
		for i := from; i < to; i++ {
			s := see(vote.Holding, vote.Exclusive, "a", vote.Token(20*(i+1)))
			s.Key = name(i)
			r.hear(0, s)
		}
	}
	begin(0, 10)
	r.merger.Doubts(0, 4)
	var all []vote.Key
	for range 5 {
		for _, d := range r.merger.Doubts(0, 4) {
			all = append(all, d.Key)
			r.merger.AddKeyResult(0, d, nil)
		}
	}
	for i, key := range all {
		if key != name(i%10) {
			t.Fatalf("asked for %q", all)
		}
	}
	if len(all) != 20 {
		t.Errorf("asked for %q", all)
	}
}

// With many keys in doubt a single look at all of them settles their doubts as well as looks at
// each key do, and from time to time only. No gap is told.
func TestManyDoubtsAreSettledByLooksAtAllKeys(t *testing.T) {
	r := newHarness(t, 3)
	r.begin()
	r.want("synced")
	const n = 5 * maxExamined / 2
	var views []vote.View
	for i := range n {
		s := see(vote.Holding, vote.Exclusive, "a", vote.Token(20*(i+1)))
		s.Key = vote.Key(fmt.Sprintf("%04d", i))
		views = append(views, s)
		r.hear(0, s)
	}
	if doubts := r.merger.Doubts(0, 4); len(doubts) != 0 || r.merger.WantsQuery() {
		t.Fatalf("asked for %v, and all reports are new", doubts)
	}
	for look := range queriesToSettle {
		if doubts := r.merger.Doubts(0, 4); len(doubts) != 0 {
			t.Fatalf("asked for %v, and all are looked at", doubts)
		}
		r.show(views...)
		if look == queriesToSettle-1 {
			break
		}
		r.want()
		for range pausesBetweenAll {
			doubts := r.merger.Doubts(0, 4)
			if len(doubts) != 4 || r.merger.WantsQuery() {
				t.Fatalf("asked for %v between two looks at all", doubts)
			}
			for _, d := range doubts {
				r.merger.AddKeyResult(0, d, nil)
			}
		}
	}
	granted := 0
	for _, e := range r.merger.Drain(nil) {
		switch e.Kind {
		case Granted:
			granted++
		case Confirmed:
		default:
			t.Fatalf("told %v", short(e))
		}
	}
	if granted != n || r.merger.InDoubt() {
		t.Errorf("%d grants were told", granted)
	}
}

// The number of keys in doubt is bounded: with more there is a gap.
func TestTooManyDoubtsAreAGap(t *testing.T) {
	r := newHarness(t, 3)
	r.begin()
	r.want("synced")
	begin := func(from, to int) {
		for i := from; i < to; i++ {
			s := see(vote.Holding, vote.Exclusive, "a", vote.Token(20*(i+1)))
			s.Key = vote.Key(fmt.Sprintf("%05d", i))
			r.hear(0, s)
		}
	}
	begin(0, maxDoubts)
	r.merger.Doubts(0, 4)
	r.want()
	begin(maxDoubts, maxDoubts+1)
	if doubts := r.merger.Doubts(0, 4); doubts != nil || r.merger.InDoubt() {
		t.Errorf("asked for %v, and all are looked at", doubts)
	}
	r.want("gap")
	r.sure()
	s := see(vote.Holding, vote.Exclusive, "a", 20)
	s.Key = "00000"
	r.show(s)
	r.want("granted! a20@20", "synced")
}

func TestReadersAndPermitsStandBesideEachOther(t *testing.T) {
	r := newHarness(t, 3)
	r.begin()
	r.hears(see(vote.Holding, vote.Shared, "a", 40), see(vote.Holding, vote.Shared, "b", 20))
	r.want("synced", "granted a40@40", "granted b20@20")
	up := see(vote.Holding, vote.Exclusive, "a", 60)
	up.Beside = 40
	r.hears(see(vote.Released, vote.Shared, "b", 20), up, see(vote.Released, vote.Shared, "a", 40))
	r.want("released b20@20", "changed a60@60")
	down := see(vote.Changed, vote.Shared, "a", 60)
	r.hears(down, see(vote.Holding, vote.Shared, "c", 80))
	r.want("changed a60@60", "granted c80@80")
	r.hear(0, see(vote.Released, vote.Shared, "a", 60), see(vote.Released, vote.Shared, "c", 80))
	r.want("released a60@60", "released c80@80")
	p1, p2, p3 := see(vote.Holding, vote.Permit, "a", 100), see(vote.Holding, vote.Permit, "b", 120), see(vote.Holding, vote.Permit, "c", 140)
	p1.Slot, p2.Slot, p3.Slot = 1, 2, 1
	r.hears(p1, p2, p3)
	r.want("granted a100@100", "granted b120@120")
	r.hear(2, see(vote.Released, vote.Permit, "a", 100))
	r.want("released a100@100", "granted c140@140")
	p0 := see(vote.Holding, vote.Permit, "d", 90) // of slot 2, before b's, and over
	p0.Slot = 2
	for place := range 3 {
		r.hear(place, p0)
	}
	r.want("gap", "granted! b120@120", "granted! c140@140", "synced")
}

func TestAGapOfTheMeshIsAGapOfAMajority(t *testing.T) {
	r := newHarness(t, 3)
	r.begin(see(vote.Holding, vote.Exclusive, "a", 20), see(vote.Waiting, vote.Exclusive, "b", 40))
	r.want("granted! a20@20", "waits! b40", "synced")
	r.merger.AddReports(0, 1, true, nil) // one voter has restarted: what it would have told is looked at
	r.want()
	b := see(vote.Holding, vote.Exclusive, "b", 40)
	r.show(b)
	r.doubted(queriesToSettle-1, b)
	r.want("lost a20@20", "granted b40@40")
	r.merger.AddReports(0, 1, true, nil)
	r.merger.AddReports(0, 2, true, nil)
	r.want("gap")
	r.hear(0, see(vote.Released, vote.Exclusive, "b", 40))
	r.show(see(vote.Holding, vote.Exclusive, "b", 40), see(vote.Holding, vote.Exclusive, "c", 10)) // c's token is smaller: the voters have forgotten
	r.want("granted! c10@10", "synced")
}

func TestAFailedLookIsTriedAgain(t *testing.T) {
	r := newHarness(t, 3)
	r.merger.AddReports(0, 1, true, nil)
	if r.merger.WantsQuery() {
		t.Fatal("one voter of three is no majority")
	}
	r.merger.AddReports(0, 2, true, nil)
	if !r.merger.WantsQuery() || r.merger.WantsQuery() {
		t.Fatal("one look at a time")
	}
	r.merger.AddResult(0, nil)
	r.want()
	r.show()
	r.want("synced")
}

func TestATalesMemoryIsBounded(t *testing.T) {
	r := newHarness(t, 3)
	r.begin()
	for i := range vote.Token(3 * maxTombstones) {
		s := see(vote.Holding, vote.Exclusive, "a", 20*(i+1))
		s.Key = vote.Key(fmt.Sprint(i))
		r.hears(s)
		s.State = vote.Released
		r.merger.AddReports(0, 0, false, []vote.View{s})
		w := s
		w.State, w.Owner.Node = vote.Waiting, "w"
		r.hear(1, w)
		r.hear(2, w)
	}
	if n := len(r.merger.keys); n > maxTombstones+maxWaiters {
		t.Errorf("it remembers %d keys", n)
	}
	if n := len(r.merger.Drain(nil)); n != 12*maxTombstones+1 { // granted, firm, released; another waits
		t.Errorf("it told %d things", n)
	}
}

// history is a true history of one exclusive key, and what its voters have yet to tell of it.
type history struct {
	random *rand.Rand
	n, q   int
	news   [][]vote.View         // by voter, not delivered yet
	gap    []bool                // what the voter tells next begins with a gap
	known  []map[vote.Token]bool // by voter: leases that it has a vote for, and whether it has heard that they are held
	truth  []string
	last   vote.Token
}

func (h *history) some(least int) []int {
	places := h.random.Perm(h.n)
	return places[:least+h.random.IntN(h.n-least+1)]
}

func (h *history) report(place int, s vote.View) { h.news[place] = append(h.news[place], s) }

// lease lets one lease come and go.
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
			continue // it has restarted
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

// TestATaleOfManyHistories lets voters tell of a key with losses, restarts and all delays, and
// holds what is told against what was.
func TestATaleOfManyHistories(t *testing.T) {
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := []int{1, 3, 5}[random.IntN(3)]
		h := &history{random: random, n: n, q: n/2 + 1, news: make([][]vote.View, n), gap: make([]bool, n), last: 100}
		for range n {
			h.known = append(h.known, map[vote.Token]bool{})
		}
		r := newHarness(t, n)
		var told []Event
		gaps := seed%2 == 0
		timely := h.some(h.q) // what these say comes at once, if nobody restarts
		step := func() {
			for _, place := range timely {
				if !gaps {
					r.merger.AddReports(0, place, false, h.news[place])
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
					r.merger.AddReports(0, place, true, nil)
					h.gap[place] = false
				}
				r.merger.AddReports(0, place, false, h.news[place][:k])
				h.news[place] = h.news[place][k:]
			}
			if random.IntN(4) == 0 && r.merger.WantsQuery() {
				if random.IntN(5) == 0 {
					r.merger.AddResult(0, nil)
				} else {
					r.merger.AddResult(0, h.picture())
				}
			}
			if random.IntN(4) == 0 {
				for _, d := range r.merger.Doubts(0, 1) {
					r.merger.AddKeyResult(0, d, h.picture())
				}
			}
			told = r.merger.Drain(told)
		}
		r.begin()
		for range 30 {
			h.lease(step)
		}
		for range 400 {
			step()
		}
		for place := range n {
			r.merger.AddReports(0, place, h.gap[place], h.news[place])
		}
		for r.merger.WantsQuery() {
			r.merger.AddResult(0, h.picture())
		}
		for range 2 * (queriesToSettle + 1) {
			for _, d := range r.merger.Doubts(0, 1) {
				r.merger.AddKeyResult(0, d, h.picture())
			}
		}
		told = r.merger.Drain(told)
		if reason := judge(told, h.truth, gaps); reason != "" {
			var words []string
			for _, e := range told {
				words = append(words, short(e))
			}
			t.Fatalf("seed %d, %d voters: %s\ntruth %v\ntold %s", seed, n, reason, h.truth, strings.Join(words, ", "))
		}
	}
}

// picture is what a majority sees now.
func (h *history) picture() *quorum.QueryResult {
	shown := &quorum.QueryResult{}
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

// judge says what is wrong with what was told of one exclusive key.
func judge(told []Event, truth []string, gaps bool) string {
	held, last := vote.Token(0), vote.Token(0)
	granted := 0
	gap := false
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
		return fmt.Sprintf("%d is held for ever", held)
	case !gaps && granted != len(truth):
		return fmt.Sprintf("%d of %d grants were told", granted, len(truth))
	}
	return ""
}

func TestALeaseIsFirmWhenAMajorityHasSaidSo(t *testing.T) {
	r := newHarness(t, 3)
	firm := func(want int) {
		t.Helper()
		n := 0
		for _, e := range r.merger.Drain(nil) {
			if e.Kind == Confirmed {
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
	for range queriesToSettle {
		firm(0)
		r.merger.Requery()
		r.merger.WantsQuery()
		r.merger.AddResult(0, &quorum.QueryResult{Views: []vote.View{see(vote.Holding, vote.Shared, "a", 20), see(vote.Holding, vote.Shared, "b", 40)}, HeldBy: []quorum.Set{1, 3}})
	}
	firm(1)
	r.merger.out = r.merger.State()
	firm(2)
}

// To bury a lease forgets the oldest that is remembered, and maybe its key, which a look under way
// has yet to come to.
func TestALookMayForgetAKeyBeforeItComesToIt(t *testing.T) {
	at := func(key vote.Key, token vote.Token) vote.View {
		s := see(vote.Holding, vote.Exclusive, "a", token)
		s.Key = key
		return s
	}
	for _, synced := range []bool{true, false} {
		r := newHarness(t, 3)
		r.begin()
		for i := range vote.Token(maxTombstones) {
			s := at(vote.Key(fmt.Sprintf("over-%05d", i)), 40*(i+1))
			r.hears(s)
			s.State = vote.Released
			r.hear(0, s)
		}
		r.hears(at("held-1", 40*maxTombstones+40))
		r.hears(at("held-2", 40*maxTombstones+80))
		r.merger.Drain(nil)
		if !synced {
			r.merger.AddReports(0, 0, true, nil)
			r.merger.AddReports(0, 1, true, nil)
			r.show()
			r.want("gap", "synced")
			continue
		}
		for range queriesToSettle {
			r.merger.Requery()
			r.show()
		}
		if told := r.merger.Drain(nil); len(told) != 2 {
			t.Errorf("told %d things, want that two leases are lost", len(told))
		}
	}
}

// A merger may get the report of a lease's end before the report of the grant: the voter knew the
// lease as a waiting request. If no other voter reports a lease, there was none.
func TestTheEndOfALeaseMayBeReportedFirst(t *testing.T) {
	r := newHarness(t, 3)
	r.begin()
	r.want("synced")
	r.hear(0, see(vote.Released, vote.Exclusive, "a", 20))
	r.hear(1, see(vote.Ended, vote.Exclusive, "b", 10))
	r.want()
	r.sure()
	r.hear(1, see(vote.Holding, vote.Exclusive, "a", 20)) // late
	r.want()
	r.hear(2, see(vote.Holding, vote.Exclusive, "a", 20))
	r.want("granted a20@20", "released a20@20")
}

// A truncated view speaks of the keys up to its last key, this key included, and of no others.
func TestATruncatedViewSpeaksOfItsKeysOnly(t *testing.T) {
	behind := see(vote.Holding, vote.Exclusive, "b", 20)
	behind.Key = "l"
	r := newHarness(t, 3)
	r.begin()
	r.hears(see(vote.Holding, vote.Exclusive, "a", 20))
	r.hears(behind)
	r.want("synced", "granted a20@20", "granted b20@20")
	for range queriesToSettle {
		r.want()
		r.merger.Requery()
		r.merger.WantsQuery()
		r.merger.AddResult(0, &quorum.QueryResult{Truncated: true, Last: "k"})
	}
	r.want("lost a20@20")
}

// A writer that becomes a reader lets other readers in. A view of voters that have yet to hear of
// the change shows the writer's lease as superseded by a reader's; the writer's lease isn't over.
func TestASupersededLeaseMayStillBeHeld(t *testing.T) {
	r := newHarness(t, 3)
	r.begin()
	r.hears(see(vote.Holding, vote.Exclusive, "a", 20))
	r.want("synced", "granted a20@20")
	for range queriesToSettle {
		r.merger.Requery()
		r.merger.WantsQuery()
		r.merger.AddResult(0, &quorum.QueryResult{
			Views:      []vote.View{see(vote.Holding, vote.Shared, "b", 40)},
			Superseded: []vote.View{see(vote.Holding, vote.Exclusive, "a", 20)},
		})
		r.want()
	}
	r.hears(see(vote.Changed, vote.Shared, "a", 20))
	r.want("changed a20@20", "granted b40@40")
}

// The mesh was cut, and the view that mends the gap is older than the newest reports. It shows as
// held a lease that is over, whose tombstone is the oldest: to drop another lease of the view
// forgets that tombstone, and with it all that the merger knows about the key.
func TestAViewThatMendsAGapMayShowAForgottenKey(t *testing.T) {
	at := func(key vote.Key, who string, token vote.Token) vote.View {
		s := see(vote.Holding, vote.Exclusive, who, token)
		s.Key = key
		return s
	}
	r := newHarness(t, 3)
	r.begin()
	for i := range vote.Token(maxTombstones) {
		s := at(vote.Key(fmt.Sprintf("over-%05d", i)), "a", 40*(i+1))
		r.hears(s)
		s.State = vote.Released
		r.hear(0, s)
	}
	const held = 40 * (maxTombstones + 1)
	r.hears(at("held", "a", held))
	r.merger.Drain(nil)
	r.merger.AddReports(0, 0, true, nil)
	r.merger.AddReports(0, 1, true, nil)
	if !r.merger.WantsQuery() {
		t.Fatal("the merger wants no query")
	}
	r.hear(0, at("held", "a", held))
	r.merger.AddResult(0, &quorum.QueryResult{Views: []vote.View{at("held", "b", held+40), at("over-00000", "a", 40)}})
	r.want("gap", fmt.Sprintf("granted! b%d@%[1]d", held+40), "synced")
}

// All voters have forgotten a lease and its token, and grant the next lease with a smaller one,
// while the watch still has the gap.
func TestAfterAGapALeaseMayHaveASmallerToken(t *testing.T) {
	r := newHarness(t, 3)
	r.begin(see(vote.Holding, vote.Exclusive, "a", 100))
	r.want("granted! a100@100", "synced")
	for place := range 3 {
		r.merger.AddReports(0, place, true, nil)
	}
	r.want("gap")
	next := see(vote.Holding, vote.Exclusive, "b", 40)
	r.hear(0, next)
	r.hear(1, next)
	next.Token = 40
	r.show(next)
	r.want("granted! b40@40", "synced")
}
