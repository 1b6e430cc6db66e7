package watchmerge

import (
	"fmt"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

func TestAWatchReportsOnceWhatAMajorityReports(t *testing.T) {
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
	r.hear(0, see(vote.Holding, vote.Exclusive, "a", 20)) // listed in a new sync
	r.hear(1, see(vote.Ended, vote.Exclusive, "a", 20))
	r.want()
	r.hear(0, see(vote.Ended, vote.Exclusive, "a", 20))
	r.want("lost a20@20")
	// Late reports.
	r.hear(2, see(vote.Holding, vote.Exclusive, "a", 20), see(vote.Ended, vote.Exclusive, "a", 20))
	r.want()
}

// A voter that was cut off reports the end of an earlier vote for the same request: the lease goes
// on.
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

// A writer that becomes a reader before its grant is reported is still ordered as a writer, behind
// the earlier lease, and not as a reader.
func TestAWriterThatDowngradesIsReportedInItsTurn(t *testing.T) {
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

// The node of an upgrade crashes after a single voter has learned of the upgrade. The end of the
// reader's lease is still reported, as a change to the upgrade and the loss of the upgrade.
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

// A query may show a lease too late for the order of events, as a report may.
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

// The state of a new watch is complete only when all leases in the query's result are reported,
// including the leases that a voter has reported since the query began.
func TestWhatAQueryHasShownIsReportedBeforeTheStateIsWhole(t *testing.T) {
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

// The result of a query for a single key is ignored during a gap: the result for all keys is on its
// way.
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
	r.merger.AddReports(0, 0, true, nil, 0)
	r.merger.AddReports(0, 1, true, nil, 0)
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

// A lease that a result shows as promised isn't part of the state, even if a voter has reported a
// grant.
func TestALeaseThatIsOnlyPromisedIsNotPartOfTheState(t *testing.T) {
	a := see(vote.Holding, vote.Exclusive, "a", 20)
	r := newHarness(t, 3)
	for place := range 3 {
		r.merger.AddReports(0, place, true, nil, 0)
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
	p0 := see(vote.Holding, vote.Permit, "d", 90) // of slot 2, earlier than b's lease, and over
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
	// One voter has restarted: a query replaces the reports that the voter may have lost.
	r.merger.AddReports(0, 1, true, nil, 0)
	r.want()
	b := see(vote.Holding, vote.Exclusive, "b", 40)
	r.show(b)
	r.doubted(queriesToSettle-1, b)
	r.want("lost a20@20", "granted b40@40")
	r.merger.AddReports(0, 1, true, nil, 0)
	r.merger.AddReports(0, 2, true, nil, 0)
	r.want("gap")
	r.hear(0, see(vote.Released, vote.Exclusive, "b", 40))
	// The token of c is smaller: the voters have forgotten the tokens before.
	r.show(see(vote.Holding, vote.Exclusive, "b", 40), see(vote.Holding, vote.Exclusive, "c", 10))
	r.want("granted! c10@10", "synced")
}

// A voter that had a gap counts again once a query was answered and a majority has reported all
// events from before the query: the restart of the next voter is no gap then.
func TestAVoterCountsAgainBeforeTheNextGap(t *testing.T) {
	r := newHarness(t, 3)
	r.begin()
	r.want("synced")
	for place := range 3 {
		r.merger.AddReports(0, place, true, nil, 0)
		r.show()
	}
	r.want()
}

func TestAFailedLookIsTriedAgain(t *testing.T) {
	r := newHarness(t, 3)
	r.merger.AddReports(0, 1, true, nil, 0)
	if r.merger.WantsQuery() {
		t.Fatal("one voter of three is no majority")
	}
	r.merger.AddReports(0, 2, true, nil, 0)
	if !r.merger.WantsQuery() || r.merger.WantsQuery() {
		t.Fatal("one look at a time")
	}
	r.merger.AddResult(0, nil)
	r.want()
	r.show()
	r.want("synced")
}

func TestATalesMemoryIsBounded(t *testing.T) {
	sampled.Computes(t)
	r := newHarness(t, 3)
	r.begin()
	for i := range vote.Token(3 * maxTombstones) {
		s := see(vote.Holding, vote.Exclusive, "a", 20*(i+1))
		s.Key = vote.Key(fmt.Sprint(i))
		r.hears(s)
		s.State = vote.Released
		r.merger.AddReports(0, 0, false, []vote.View{s}, 0)
		w := s
		w.State, w.Owner.Node = vote.Waiting, "w"
		r.hear(1, w)
		r.hear(2, w)
	}
	if n := len(r.merger.keys); n > maxTombstones+maxWaiters {
		t.Errorf("it remembers %d keys", n)
	}
	// For each lease: granted, confirmed, released, and another request waits.
	if n := len(r.merger.Drain(nil)); n != 12*maxTombstones+1 {
		t.Errorf("it told %d things", n)
	}
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
	firm(0) // perhaps a single voter shows the lease, and late
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
	r.merger.out = r.merger.State(0)
	firm(2)
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

// A truncated result covers the keys up to its last key, this key included, and no other keys.
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

// A writer that becomes a reader lets other readers in. The result of voters without this change
// shows the writer's lease as superseded by a reader's lease; the writer's lease isn't over.
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

// The mesh was cut, and the result that ends the gap is older than the newest reports. The result
// shows a lease as held although the lease is over and has a tombstone, the oldest of all. A
// tombstone for another lease drops the oldest tombstone, and with the tombstone all knowledge
// about its key.
func TestAViewThatMendsAGapMayShowAForgottenKey(t *testing.T) {
	sampled.Computes(t)
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
	r.merger.AddReports(0, 0, true, nil, 0)
	r.merger.AddReports(0, 1, true, nil, 0)
	r.restart()
	if !r.merger.WantsQuery() {
		t.Fatal("the merger wants no query")
	}
	r.hear(0, at("held", "a", held))
	r.merger.AddResult(0, &quorum.QueryResult{Views: []vote.View{at("held", "b", held+40), at("over-00000", "a", 40)}})
	r.want("gap", fmt.Sprintf("granted! b%d@%[1]d", held+40), "synced")
}

// All voters have forgotten a lease and its token, and grant the next lease with a smaller token,
// while the watch still has the gap.
func TestAfterAGapALeaseMayHaveASmallerToken(t *testing.T) {
	r := newHarness(t, 3)
	r.begin(see(vote.Holding, vote.Exclusive, "a", 100))
	r.want("granted! a100@100", "synced")
	for place := range 3 {
		r.merger.AddReports(0, place, true, nil, 0)
	}
	r.want("gap")
	next := see(vote.Holding, vote.Exclusive, "b", 40)
	r.hear(0, next)
	r.hear(1, next)
	next.Token = 40
	r.show(next)
	r.want("granted! b40@40", "synced")
}

// Each voter reports the release of a request of which no grant is known. The release is remembered
// once, so the memory holds its full number of requests, and late grants are over at once.
func TestAReleaseReportedByEachVoterIsRememberedOnce(t *testing.T) {
	r := newHarness(t, 3)
	r.begin()
	r.want("synced")
	for i := range vote.Token(maxTombstones) {
		for place := range 3 {
			r.hear(place, see(vote.Released, vote.Exclusive, "a", 20*(i+1)))
		}
	}
	r.want()
	r.hears(see(vote.Holding, vote.Exclusive, "a", 20)) // late
	r.want("granted a20@20", "released a20@20")
}
