package quorum

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// inspected is a bench of three voters with an inspection under way.
type inspected struct {
	*bench
	nonces map[vote.NodeID]uint64 // of the newest query to each voter
}

func inspect(t *testing.T) *inspected {
	b := newBench(t, 3)
	b.all()
	i := &inspected{b, make(map[vote.NodeID]uint64)}
	i.q.Inspect(i.now, "k")
	i.questions()
	return i
}

// questions records the queries sent to the voters, and returns their number.
func (i *inspected) questions() int {
	n := 0
	for _, v := range []vote.NodeID{"v0", "v1", "v2"} {
		for _, m := range i.asked(v, vote.KindQuery) {
			i.nonces[v] = m.Nonce
			n++
		}
	}
	return n
}

// answers has a voter answer. The owner of each lease has reported that there was no hand-off.
func (i *inspected) answers(v vote.NodeID, views ...vote.View) {
	views = slices.Clone(views)
	for n := range views {
		views[n].Version = max(views[n].Version, vote.CountHandOffs(0, 0))
	}
	i.show(v, i.nonces[v], views...)
}

// want demands an inspection without a result for "open", or else the result shown; sure says
// whether the result is certain.
func (i *inspected) want(want string, sure bool) {
	i.t.Helper()
	if want == "open" {
		if e := i.last(EventQueryDone); e != nil {
			i.t.Fatalf("it shows %q; it should be open", i.seen())
		}
		return
	}
	if got := i.seen(); got != want || i.last(EventQueryDone).Result.Certain != sure {
		i.t.Errorf("it shows %q, sure %t; want %q, %t", got, i.last(EventQueryDone).Result.Certain, want, sure)
	}
}

func TestAnInspectionSettlesTheHolderOfTheKey(t *testing.T) {
	const x, p = vote.Exclusive, vote.Permit
	promised := func(owner vote.NodeID, token vote.Token) vote.View {
		return viewEntry(vote.Promised, owner, 1, x, token)
	}
	holding := func(owner vote.NodeID, token vote.Token) vote.View {
		return viewEntry(vote.Holding, owner, 1, x, token)
	}
	resting := viewEntry(vote.Delayed, "a", 1, x, 100)
	resting.Unlocked = true
	kept := viewEntry(vote.Delayed, "a", 1, x, 100)
	waiting := func(owner vote.NodeID) vote.View { return viewEntry(vote.Waiting, owner, 1, x, 0) }
	slot := func(s vote.Slot) vote.View {
		o := viewEntry(vote.Promised, "a", 1, p, 100)
		o.Slot = s
		return o
	}
	views := func(all ...vote.View) []vote.View { return all }
	for _, row := range []struct {
		name       string
		v0, v1, v2 []vote.View
		two        string // shown when v0 and v1 have answered
		three      string // shown when v2 has answered, too
	}{
		{"nobody", nil, nil, nil, "", ""},
		{"two votes for one token are a lease, though no voter has heard that it was granted", views(promised("a", 100)), views(promised("a", 100)), nil, "a! ", ""},
		{"a voter that hasn't answered may have the second vote", views(promised("a", 100)), nil, views(promised("a", 100)), "open", "a! "},
		{"and it hasn't: the request isn't known to a majority, or is over", views(promised("a", 100)), nil, nil, "open", ""},
		{"and it hasn't, but knows the request: it waits", views(promised("a", 100)), nil, views(waiting("a")), "open", "a? "},
		{"one has heard that it was granted, and the other has heard nothing", views(holding("a", 100)), nil, views(promised("a", 100)), "open", "a! "},
		{"one hasn't heard of a release that two have confirmed", views(holding("a", 100)), nil, nil, "open", ""},
		{"the same, and the next was granted", views(holding("a", 100)), views(promised("b", 200)), views(promised("b", 200)), "open", "b! "},
		{"votes for two tokens: the larger one isn't confirmed", views(promised("a", 100)), views(promised("a", 101)), views(promised("a", 101)), "open", "a! "},
		{"votes for two tokens: the smaller one isn't confirmed", views(promised("a", 102)), views(promised("a", 101)), views(promised("a", 101)), "open", "a! "},
		{"votes in two slots make no permit", views(slot(1)), views(slot(2)), views(slot(2)), "open", "a! "},
		{"a waiter that two know of", views(holding("a", 100), waiting("b")), views(holding("a", 100), waiting("b")), nil, "a! b? ", ""},
		{"a request that one voter knows, and two have confirmed the end of", views(waiting("b")), nil, nil, "open", ""},
		{"a lease behind which the key rests at one", views(resting), nil, nil, "a~ ", ""},
		{"the same, and one hasn't heard of the release", views(resting), views(holding("a", 100)), nil, "a~ ", ""},
		{"the same, in another order", views(holding("a", 100)), views(resting), nil, "a~ ", ""},
		{"the key rests at one, and one hasn't heard of the grant", views(resting), views(promised("a", 100)), nil, "a~ ", ""},
		{"the key rests at one, and one hasn't heard of the promise", views(resting), views(waiting("a")), nil, "a~ ", ""},
		{"a voter keeps the key after a vote, and one hasn't heard of the promise", views(kept), views(waiting("a")), nil, "open", "a~ "},
		{"the same, in another order", views(waiting("a")), views(kept), nil, "open", "a~ "},
		{"a request that one voter knows, and another yet to answer", views(waiting("b")), nil, views(waiting("b")), "open", "b? "},
	} {
		t.Run(row.name, func(t *testing.T) {
			i := inspect(t)
			i.answers("v0", row.v0...)
			i.want("open", false) // a single answer is no majority
			i.answers("v1", row.v1...)
			if row.two != "open" {
				i.want(row.two, true)
				return
			}
			i.want("open", false)
			i.answers("v2", row.v2...)
			i.want(row.three, true)
		})
	}
}

// Two voters have granted the lease by votes for the same token; the third voter has voted for
// another token in another slot. The inspection shows the token and the slot of the majority.
func TestAnInspectionTellsTheTokenThatWon(t *testing.T) {
	won, other := viewEntry(vote.Promised, "a", 1, vote.Permit, 100), viewEntry(vote.Promised, "a", 1, vote.Permit, 200)
	won.Slot, other.Slot = 1, 2
	for name, held := range map[string]bool{"no voter has heard that it was granted": false, "one has": true} {
		t.Run(name, func(t *testing.T) {
			i := inspect(t)
			first := won
			if held {
				first.State = vote.Holding
			}
			i.answers("v0", other)
			i.answers("v1", first)
			if !held {
				i.want("open", false)
				i.answers("v2", won)
			}
			i.want("a! ", true)
			if s := i.last(EventQueryDone).Result.Views[0]; s.Token != won.Token.First() || s.Slot != won.Slot {
				t.Errorf("it shows token %d in slot %d, want %d in %d", s.Token, s.Slot, won.Token.First(), won.Slot)
			}
		})
	}
}

// A lease that was found held by some of the answers keeps its token when a later answer leaves the
// lease open.
func TestAnInspectionKeepsTheTokenThatWasSettled(t *testing.T) {
	i := inspect(t)
	won, other := viewEntry(vote.Promised, "a", 1, vote.Exclusive, 100), viewEntry(vote.Promised, "a", 1, vote.Exclusive, 200)
	b := viewEntry(vote.Promised, "b", 1, vote.Exclusive, 50) // keeps the inspection open
	i.answers("v0", won)
	i.answers("v1", won, b)
	i.want("open", false)
	i.pass(inspectPause)
	if n := i.questions(); n != 3 {
		t.Fatalf("%d questions after a pause", n)
	}
	i.answers("v0", other)
	i.answers("v1", won)
	i.want("a! ", true)
	if s := i.last(EventQueryDone).Result.Views[0]; s.Token != won.Token.First() {
		t.Errorf("it shows token %d, want %d", s.Token, won.Token.First())
	}
}

// The lease of a rests on v0 and v1. The lease becomes shared, v0 is cut off from a and doesn't
// learn of the change, and v1 and v2 grant a shared lease to b. By the last answers of v0 and v2,
// the lease of a looks like an exclusive lease, contradicted by the newer lease of b. (Seed
// 840002671 of worlds with queries.)
func TestAnInspectionSeesALeaseThatLetsOthersIn(t *testing.T) {
	alone := viewEntry(vote.Holding, "a", 1, vote.Exclusive, 100)
	beside := viewEntry(vote.Holding, "a", 1, vote.Shared, 100)
	in := viewEntry(vote.Holding, "b", 1, vote.Shared, 200)
	inspect := func(t *testing.T) *inspected {
		i := inspect(t)
		i.answers("v0", alone)
		// The request of c keeps the inspection open.
		i.answers("v1", beside, viewEntry(vote.Promised, "c", 1, vote.Shared, 50))
		i.want("open", false)
		i.pass(inspectPause)
		i.questions()
		i.answers("v0", alone, in)
		i.answers("v2", in)
		i.want("open", false)
		return i
	}
	t.Run("the voter that knows answers", func(t *testing.T) {
		i := inspect(t)
		i.answers("v1", beside, in)
		i.want("a!s b!s ", true)
	})
	t.Run("the voter that knows says that the lease of a is over", func(t *testing.T) {
		i := inspect(t)
		i.answers("v1", in)
		i.want("b!s ", true)
	})
	t.Run("the voter that knows is silent", func(t *testing.T) {
		i := inspect(t)
		i.q.Unlink(i.now, i.place("v1"))
		for past := time.Duration(0); past < ttl/2; past += maxInspectPause {
			i.refreshed("v0", "v2")
			i.pass(maxInspectPause)
			i.questions()
			i.answers("v0", alone, in)
			i.answers("v2", in)
		}
		i.want("b!s ", false)
	})
}

// A request that stays open after the answers of all voters is queried again after a pause: the
// messages that the voters lack are on their way.
func TestAnInspectionAsksAgain(t *testing.T) {
	i := inspect(t)
	one, two := viewEntry(vote.Promised, "a", 1, vote.Exclusive, 100), viewEntry(vote.Promised, "a", 1, vote.Exclusive, 101)
	i.answers("v0", one)
	i.answers("v1", two)
	i.answers("v2")
	i.want("open", false)
	if n := i.questions(); n != 0 {
		t.Fatalf("%d questions at once", n)
	}
	i.pass(inspectPause)
	if n := i.questions(); n != 3 {
		t.Fatalf("%d questions after a pause, want 3", n)
	}
	i.answers("v0", two)
	i.want("open", false)
	i.answers("v1", two)
	i.want("a! ", true)
}

// A key in constant use keeps no inspection waiting: only the requests that were open at first must
// be settled.
func TestAnInspectionOfAKeyInUseEnds(t *testing.T) {
	i := inspect(t)
	i.answers("v0", viewEntry(vote.Promised, "a", 1, vote.Exclusive, 100))
	i.answers("v1")
	i.answers("v2", viewEntry(vote.Promised, "a", 1, vote.Exclusive, 101))
	i.want("open", false)
	i.pass(inspectPause)
	i.questions()
	i.answers("v0", viewEntry(vote.Promised, "b", 2, vote.Exclusive, 200))
	i.answers("v1")
	i.want("b? ", true) // the end of a is confirmed, and b came after the inspection had begun
}

// An inspection that stays open ends after half a TTL, with an uncertain result.
func TestAnInspectionDoesNotStayOpenForEver(t *testing.T) {
	i := inspect(t)
	held := viewEntry(vote.Holding, "a", 1, vote.Exclusive, 100)
	i.q.Unlink(i.now, i.place("v2"))
	questions := 0
	for past := time.Duration(0); past < ttl/2-maxInspectPause; past += inspectPause {
		i.refreshed("v0", "v1")
		i.answers("v0", held)
		i.answers("v1")
		i.want("open", false)
		i.pass(inspectPause)
		questions += i.questions()
	}
	if most := 2 * (8 + int(ttl/2/maxInspectPause)); questions > most || questions < 8 {
		t.Errorf("%d questions, want 8 to %d: the pauses grow", questions, most)
	}
	for range 3 {
		i.refreshed("v0", "v1")
		i.pass(maxInspectPause)
	}
	i.want("a! ", false)
}

// After half a TTL with a voter out of reach, a request that may have this voter's vote is unsure,
// unless a lease rules the request out, or the request has no vote of another voter either.
func TestAnInspectionTellsWhichRequestsMayBeHeld(t *testing.T) {
	for _, row := range []struct {
		name   string
		v0, v1 []vote.View
		shows  string
		unsure []bool
	}{
		{"a vote", []vote.View{viewEntry(vote.Promised, "a", 1, vote.Exclusive, 100)}, nil, "a+ ", []bool{true}},
		{"a vote, and a request that waits at the other voter", []vote.View{viewEntry(vote.Promised, "a", 1, vote.Exclusive, 100)},
			[]vote.View{viewEntry(vote.Waiting, "a", 1, vote.Exclusive, 0)}, "a? ", []bool{true}},
		{"no vote", []vote.View{viewEntry(vote.Promised, "a", 1, vote.Exclusive, 100), viewEntry(vote.Waiting, "b", 2, vote.Exclusive, 0)},
			[]vote.View{viewEntry(vote.Waiting, "b", 2, vote.Exclusive, 0)}, "a+ b? ", []bool{true, false}},
		{"a lease of another node", []vote.View{viewEntry(vote.Holding, "b", 2, vote.Exclusive, 200), viewEntry(vote.Promised, "a", 1, vote.Exclusive, 300)},
			[]vote.View{viewEntry(vote.Holding, "b", 2, vote.Exclusive, 200)}, "b! a+ ", []bool{false, false}},
		{"a shared lease of another node", []vote.View{viewEntry(vote.Holding, "b", 2, vote.Shared, 200), viewEntry(vote.Promised, "a", 1, vote.Shared, 300)},
			[]vote.View{viewEntry(vote.Holding, "b", 2, vote.Shared, 200)}, "b!s a+s ", []bool{false, true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			i := inspect(t)
			i.q.Unlink(i.now, i.place("v2"))
			for past := time.Duration(0); past <= ttl/2+maxInspectPause && i.last(EventQueryDone) == nil; past += inspectPause {
				i.refreshed("v0", "v1")
				i.answers("v0", row.v0...)
				i.answers("v1", row.v1...)
				i.pass(inspectPause)
				i.questions()
			}
			i.want(row.shows, false)
			if got := i.last(EventQueryDone).Result.Unsure; !slices.Equal(got, row.unsure) {
				t.Errorf("unsure: %v, want %v", got, row.unsure)
			}
		})
	}
}

// refreshed has voters acknowledge all messages, so that the voters go on counting.
func (i *inspected) refreshed(voters ...vote.NodeID) { i.acks(voters...) }

// A voter with a new link isn't queried again before the voter's answer to the sync, and is queried
// right after this answer.
func TestAnInspectionAsksNoVoterBeforeItsAnswerToTheSync(t *testing.T) {
	i := inspect(t)
	i.q.Unlink(i.now, i.place("v2"))
	i.q.Link(i.now, i.place("v2"), vote.SessionID{Node: "v2", Incarnation: 5})
	i.questions()
	i.answers("v0", viewEntry(vote.Promised, "a", 1, vote.Exclusive, 100))
	i.answers("v1")
	i.want("open", false)
	i.pass(inspectPause)
	if n := i.questions(); n != 2 {
		t.Errorf("%d questions, want those to v0 and v1", n)
	}
	i.answer("v2")
	if n := i.questions(); n != 1 {
		t.Errorf("%d questions once v2 has answered", n)
	}
}

// A page ends at the last key that the answers of all voters have reached.
func TestAPageEndsWhereAVoterShowedNoMore(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	nonce := b.q.Page(b.now, "p/", "p/a", 2)
	asked := b.asked("v0", vote.KindQuery)
	if len(asked) != 1 || asked[0].Key != "p/" || !asked[0].Prefix || string(asked[0].Value) != "p/a" || asked[0].Count != 2 {
		t.Fatalf("v0 is asked %+v", asked)
	}
	held := func(key vote.Key, n vote.Number) vote.View {
		s := viewEntry(vote.Promised, "a", n, vote.Exclusive, 100)
		s.Key = key
		return s
	}
	b.sends("v0", vote.Message{Kind: vote.KindQueryResult, Nonce: nonce, Views: []vote.View{held("p/b", 1), held("p/d", 3)}, End: true, Gap: true})
	b.sends("v1", vote.Message{Kind: vote.KindQueryResult, Nonce: nonce, Views: []vote.View{held("p/b", 1), held("p/c", 2)}, End: true, Gap: true})
	b.shows("v2", nonce, held("p/c", 2), held("p/d", 3))
	e := b.last(EventQueryDone)
	if e == nil || !e.Result.Truncated || e.Result.Last != "p/c" || len(e.Result.Views) != 2 || e.Result.Views[0].State != vote.Holding || e.Result.Views[1].State != vote.Holding {
		t.Errorf("%+v", e.Result)
	}
}

// showLapsed has a voter answer, and report for how long the voter has lost no vote without a
// release by the owner.
func (i *inspected) showLapsed(v vote.NodeID, ago time.Duration, views ...vote.View) {
	i.sends(v, vote.Message{Kind: vote.KindQueryResult, Nonce: i.nonces[v], Views: views, End: true, TTL: ago})
}

// The lease of a rests on v0 and v1. During the inspection v1 loses sight of a, and the lease comes
// to rest on v0 and v2. But v2 has answered before this change, and v1 answers afterwards, so both
// answers together suggest a single vote, of v0. (Found by worlds with queries.)
func TestAnInspectionSeesALeaseThatMovesToAnotherVoter(t *testing.T) {
	holding := viewEntry(vote.Holding, "a", 1, vote.Exclusive, 100)
	t.Run("known to one of those that answer", func(t *testing.T) {
		i := inspect(t)
		i.answers("v2")
		i.pass(100 * time.Millisecond)
		i.showLapsed("v1", 50*time.Millisecond)
		i.answers("v0", holding)
		i.want("open", false)
		i.pass(maxInspectPause)
		if n := i.questions(); n != 3 {
			t.Fatalf("%d voters are asked again, want 3", n)
		}
		i.answers("v2", holding)
		i.answers("v0", holding)
		i.want("a! ", true)
	})
	t.Run("unknown to those that answer", func(t *testing.T) {
		i := inspect(t)
		i.answers("v2")
		i.pass(100 * time.Millisecond)
		i.showLapsed("v1", 50*time.Millisecond)
		i.want("open", false)
		i.pass(maxInspectPause)
		i.questions()
		i.answers("v2", holding)
		i.showLapsed("v1", 100*time.Millisecond)
		i.want("open", false) // v0 may have the second vote, or may have confirmed the end
		i.answers("v0", holding)
		i.want("a! ", true)
	})
	t.Run("a vote that was lost before the first was asked does no harm", func(t *testing.T) {
		i := inspect(t)
		i.answers("v2")
		i.pass(100 * time.Millisecond)
		i.showLapsed("v1", 120*time.Millisecond)
		i.want("", true)
	})
	t.Run("a voter that loses votes all the time leaves the answer unsure", func(t *testing.T) {
		i := inspect(t)
		for n := 0; i.last(EventQueryDone) == nil && n < 1000; n++ {
			i.answers("v2")
			i.pass(10 * time.Millisecond)
			i.showLapsed("v1", time.Millisecond)
			i.pass(maxInspectPause)
			i.questions()
		}
		i.want("", false)
	})
}

// The state of a watch shows a request as held once a voter knows of the grant. Until then the
// inspection is repeated; a request that may be granted any moment is never shown as waiting.
func TestAnInspectionForAWatchWaitsForTheGrant(t *testing.T) {
	promised, holding := viewEntry(vote.Promised, "a", 1, vote.Exclusive, 100), viewEntry(vote.Holding, "a", 1, vote.Exclusive, 100)
	forWatch := func(t *testing.T) *inspected {
		b := newBench(t, 3)
		b.all()
		i := &inspected{b, make(map[vote.NodeID]uint64)}
		i.q.InspectForWatch(i.now, "k", false)
		i.questions()
		i.answers("v0", promised)
		i.answers("v1", promised)
		i.answers("v2", promised)
		i.want("open", false)
		i.pass(inspectPause)
		if n := i.questions(); n != 3 {
			t.Fatalf("%d voters are asked again", n)
		}
		i.answers("v0", promised)
		return i
	}
	t.Run("it comes", func(t *testing.T) {
		i := forWatch(t)
		i.answers("v1", holding)
		i.want("a! ", true)
	})
	t.Run("the node gave up", func(t *testing.T) {
		i := forWatch(t)
		i.answers("v1")
		i.want("open", false)
		i.answers("v2")
		i.want("", true)
	})
	t.Run("it doesn't come", func(t *testing.T) {
		i := forWatch(t)
		for i.last(EventQueryDone) == nil && i.now.Fast < vote.Instant(10*ttl) {
			i.answers("v1", promised)
			i.answers("v2", promised)
			i.pass(maxInspectPause)
			i.acks("v0", "v1", "v2")
			i.questions()
			i.answers("v0", promised)
		}
		i.want("a+ ", false)
	})
}

// Views in any order give the same result as views in order.
func TestAnswersOutOfOrderAreMergedByKey(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	nonce := b.q.InspectForWatch(b.now, "", true)
	held := func(key vote.Key, n vote.Number) vote.View {
		s := viewEntry(vote.Holding, "a", n, vote.Exclusive, vote.Token(100*n))
		s.Key = key
		return s
	}
	b.sends("v0", vote.Message{Kind: vote.KindQueryResult, Nonce: nonce, Views: []vote.View{held("c", 3), held("a", 1), held("b", 2)}, End: true})
	b.sends("v1", vote.Message{Kind: vote.KindQueryResult, Nonce: nonce, Views: []vote.View{held("b", 2), held("c", 3), held("a", 1)}, End: true})
	e := b.last(EventQueryDone)
	if e == nil {
		t.Fatal("no result")
	}
	for i, key := range []vote.Key{"a", "b", "c"} {
		if len(e.Result.Views) != 3 || e.Result.Views[i].Key != key || e.Result.HeldBy[i].Len() != 2 {
			t.Fatalf("%+v, held by %v", e.Result.Views, e.Result.HeldBy)
		}
	}
}

// A lease may have been handed off among the callers of its node.
// TestAnInspectionWaitsForTheNumberOfHandOffs shows that an inspection asks again until the owner
// has reported the number of hand-offs, and shows the token of the present holder. The inspection
// asks for a short time only, and only for exclusive leases without a value.
func TestAnInspectionWaitsForTheNumberOfHandOffs(t *testing.T) {
	lease := viewEntry(vote.Holding, "a", 1, vote.Exclusive, 100)
	start := func(t *testing.T, view vote.View) *inspected {
		i := inspect(t)
		i.show("v0", i.nonces["v0"], view)
		i.show("v1", i.nonces["v1"], view)
		return i
	}
	token := func(i *inspected) vote.Token { return i.last(EventQueryDone).Result.Views[0].Token }
	t.Run("the owner tells one voter", func(t *testing.T) {
		i := start(t, lease)
		i.want("open", false)
		i.pass(inspectPause)
		if n := i.questions(); n != 3 {
			t.Fatalf("%d voters are asked again, want 3", n)
		}
		told := lease
		told.Version = vote.CountHandOffs(0, 7)
		i.show("v0", i.nonces["v0"], lease)
		i.show("v1", i.nonces["v1"], told)
		i.want("a! ", true)
		if got, want := token(i), lease.Token.First()+7; got != want {
			t.Errorf("token %d is shown, want %d", got, want)
		}
		if v := i.last(EventQueryDone).Result.Views[0].Version; v != 0 {
			t.Errorf("version %d is shown of a lease without a value", v)
		}
	})
	t.Run("the owner tells no voter", func(t *testing.T) {
		i := start(t, lease)
		for past := time.Duration(0); i.last(EventQueryDone) == nil; past += maxInspectPause {
			if past > 2*HandOffsWait {
				t.Fatal("the inspection goes on")
			}
			i.refreshed("v0", "v1", "v2")
			i.pass(maxInspectPause)
			i.questions()
			i.show("v0", i.nonces["v0"], lease)
			i.show("v1", i.nonces["v1"], lease)
		}
		i.want("a! ", true)
		if got, want := token(i), lease.Token.First(); got != want {
			t.Errorf("token %d is shown, want %d", got, want)
		}
	})
	t.Run("the lease has a value", func(t *testing.T) {
		withValue := lease
		withValue.Version, withValue.Value = 1, []byte("v")
		start(t, withValue).want("a! ", true)
	})
	t.Run("a value that was set after hand-offs", func(t *testing.T) {
		withValue := lease
		withValue.Version, withValue.Value = vote.CountHandOffs(2, 31), []byte("v")
		i := start(t, withValue)
		i.want("a! ", true)
		if s := i.last(EventQueryDone).Result.Views[0]; s.Token != lease.Token || s.Version != 2 {
			t.Errorf("token %d with version %d is shown, want %d and 2", s.Token, s.Version, lease.Token)
		}
	})
	t.Run("a reader", func(t *testing.T) {
		start(t, viewEntry(vote.Holding, "a", 1, vote.Shared, 100)).want("a!s ", true)
	})
	t.Run("a lease that began after the inspection", func(t *testing.T) {
		i := start(t, lease)
		i.pass(inspectPause)
		i.questions()
		next := viewEntry(vote.Holding, "b", 2, vote.Exclusive, 200)
		i.show("v0", i.nonces["v0"], next)
		i.show("v1", i.nonces["v1"], next)
		i.show("v2", i.nonces["v2"], next)
		i.want("b! ", true)
	})
}
