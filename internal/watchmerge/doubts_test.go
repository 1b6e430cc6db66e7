package watchmerge

import (
	"fmt"
	"testing"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// One voter hasn't received the grant of the earlier lease, and another voter hasn't received its
// release.
func TestALeaseDoesntOvertakeTheOneBefore(t *testing.T) {
	a, b := see(vote.Holding, vote.Exclusive, "a", 20), see(vote.Holding, vote.Exclusive, "b", 40)
	over := see(vote.Released, vote.Exclusive, "a", 20)
	r := newHarness(t, 3)
	r.begin()
	r.hear(2, b)
	r.want("synced") // this report could be the first of many
	r.hear(0, a)
	r.want()
	r.hear(0, over, b) // a majority reports b, but earlier events come first
	r.want()
	r.hear(1, a)
	r.want("granted a20@20", "released a20@20", "granted b40@40")
	r.hear(1, over, b)
	r.hear(2, a, over)
	r.want()
	r.sure()
}

// An overheard report doesn't count: the voter may still have a vote for the earlier lease, and has
// yet to report the end of this lease.
func TestAWordThatWasOverheardDoesntCount(t *testing.T) {
	a, b := see(vote.Holding, vote.Exclusive, "a", 20), see(vote.Holding, vote.Exclusive, "b", 40)
	heard := see(vote.GrantedElsewhere, vote.Exclusive, "b", 40)
	r := newHarness(t, 3)
	r.begin()
	r.hear(2, b)
	r.hear(1, heard) // while v1 has a vote for a
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
	// The lease of x was never reported, and is over by now.
	r.hear(1, see(vote.Holding, vote.Exclusive, "x", 50))
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
	r.doubted(queriesToSettle, a) // its owner still has the votes of the other voters
	r.want()
	r.sure()
	r.hear(0, see(vote.Ended, vote.Exclusive, "a", 20))
	r.doubted(queriesToSettle)
	r.want("lost a20@20")
	r.hear(0, b)
	r.doubted(queriesToSettle) // one voter reported b, and no lease is left
	r.want("granted b40@40", "lost b40@40")
	r.sure()
}

// A report that arrives during a query for the key is newer than the query.
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
		// A promise is neither a lease nor an end.
		r.merger.AddKeyResult(0, doubts[0], &quorum.QueryResult{Views: []vote.View{promised}})
		doubts = r.merger.Doubts(0, 16)
		r.merger.AddKeyResult(0, doubts[0], nil)
	}
	r.want()
	r.hear(1, a)
	r.want("granted a20@20")
	r.sure()
}

// The keys queried at a time are limited, and the next call goes on where the last call ended.
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

// With many keys in doubt, queries for all keys settle the doubts as well as queries for single
// keys do, and such queries are rare. No gap is reported.
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

// The number of keys in doubt is bounded: with more keys in doubt, the merger reports a gap.
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

// A new tombstone drops the oldest tombstone, perhaps together with its key, before the result of a
// query under way has come to this key.
func TestALookMayForgetAKeyBeforeItComesToIt(t *testing.T) {
	sampled.Computes(t)
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
			r.merger.AddReports(0, 0, true, nil, 0)
			r.merger.AddReports(0, 1, true, nil, 0)
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
