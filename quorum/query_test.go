package quorum

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// show has a voter answer a query with views.
func (b *bench) show(v vote.NodeID, nonce uint64, views ...vote.View) {
	b.sends(v, vote.Message{Kind: vote.KindQueryResult, Nonce: nonce, Views: views, End: true, TTL: time.Hour})
}

func viewEntry(what vote.State, owner vote.NodeID, n vote.Number, mode vote.Mode, token vote.Token) vote.View {
	return vote.View{State: what, Key: "k", Owner: vote.SessionID{Node: owner, Incarnation: 1}, Number: n, Mode: mode, Token: token, Time: vote.Micros(n)}
}

// seen lists the result of the last query: the owner and the state of each view entry.
func (b *bench) seen() string {
	b.t.Helper()
	e := b.last(EventQueryDone)
	if e == nil || e.Result == nil {
		b.t.Fatalf("nothing was shown: %+v", e)
	}
	text := ""
	for _, s := range e.Result.Views {
		text += string(s.Owner.Node) + map[vote.State]string{vote.Holding: "!", vote.Promised: "+", vote.Waiting: "?", vote.Delayed: "~"}[s.State]
		if s.Mode == vote.Shared {
			text += "s"
		}
		text += " "
	}
	return text
}

func TestALookNeedsAMajorityAndMergesWhatItSees(t *testing.T) {
	const x, s = vote.Exclusive, vote.Shared
	for _, c := range []struct {
		name   string
		v0, v1 []vote.View
		want   string
	}{
		{"nothing", nil, nil, ""},
		{"one holds, the other hasn't heard of it yet",
			[]vote.View{viewEntry(vote.Holding, "a", 1, x, 100)}, []vote.View{viewEntry(vote.Promised, "a", 1, x, 100), viewEntry(vote.Waiting, "b", 2, x, 0)}, "a! b? "},
		{"a promise is neither a lease nor a wait", []vote.View{viewEntry(vote.Promised, "a", 1, x, 100)}, nil, "a+ "},
		{"a release that one hasn't heard of: the next exclusive lease is newer",
			[]vote.View{viewEntry(vote.Holding, "a", 1, x, 100)}, []vote.View{viewEntry(vote.Holding, "b", 2, x, 200)}, "b! "},
		{"the same, and readers are the next",
			[]vote.View{viewEntry(vote.Holding, "a", 1, x, 100)}, []vote.View{viewEntry(vote.Holding, "b", 2, s, 200), viewEntry(vote.Holding, "c", 3, s, 300)}, "b!s c!s "},
		{"readers that are over, and a writer",
			[]vote.View{viewEntry(vote.Holding, "b", 2, s, 100), viewEntry(vote.Holding, "c", 3, s, 150)}, []vote.View{viewEntry(vote.Holding, "a", 1, x, 200)}, "a! "},
		{"several readers", []vote.View{viewEntry(vote.Holding, "c", 3, s, 300), viewEntry(vote.Holding, "b", 2, s, 200)},
			[]vote.View{viewEntry(vote.Holding, "b", 2, s, 200)}, "b!s c!s "},
		{"a writer that has become a reader, beside another; one voter hasn't heard of that",
			[]vote.View{viewEntry(vote.Holding, "a", 1, x, 100)},
			[]vote.View{viewEntry(vote.Holding, "a", 1, s, 100), viewEntry(vote.Holding, "b", 2, s, 200)}, "a!s b!s "},
		{"resting comes behind holding, and before waiting",
			[]vote.View{viewEntry(vote.Waiting, "c", 1, x, 0), viewEntry(vote.Delayed, "a", 2, s, 100), viewEntry(vote.Holding, "b", 3, s, 200)}, nil, "b!s a~s c? "},
		{"by stamp", []vote.View{viewEntry(vote.Waiting, "c", 3, x, 0), viewEntry(vote.Waiting, "a", 2, x, 0)}, []vote.View{viewEntry(vote.Waiting, "b", 1, x, 0)}, "b? a? c? "},
	} {
		for _, turned := range []bool{false, true} {
			b := newBench(t, 3)
			b.all()
			n := b.q.Query(b.now, "k")
			first, second := vote.NodeID("v0"), vote.NodeID("v1")
			if turned {
				first, second = second, first
			}
			b.show(first, n, c.v0...)
			if b.last(EventQueryDone) != nil {
				t.Fatalf("%s: one voter is enough", c.name)
			}
			b.show(second, n, c.v1...)
			if got := b.seen(); got != c.want {
				t.Errorf("%s (turned: %v): saw %q, want %q", c.name, turned, got, c.want)
			}
		}
	}
}

// The result doesn't depend on the order of the answers, nor on a voter's knowledge of the grant.
func TestALookShowsTheNewestValueAndTheFirstTokenOfTheRun(t *testing.T) {
	for _, youngFirst := range []bool{false, true} {
		for _, states := range [][2]vote.State{
			{vote.Holding, vote.Promised}, {vote.Promised, vote.Holding}, {vote.Holding, vote.Holding},
		} {
			b := newBench(t, 3)
			b.all()
			n := b.q.Query(b.now, "k")
			old, young := viewEntry(states[0], "a", 1, vote.Exclusive, 100), viewEntry(states[1], "a", 1, vote.Exclusive, 100)
			old.Version, old.Value, old.Left = 1, []byte("old"), time.Second
			young.Version, young.Value, young.Left = 2, []byte("new"), 2*time.Second
			first, second := old, young
			if youngFirst {
				first, second = young, old
			}
			b.show("v0", n, first)
			b.show("v0", n, second) // a second answer of the same voter doesn't count
			b.show("v2", n, second)
			s := b.last(EventQueryDone).Result.Views
			if len(s) != 1 || s[0].State != vote.Holding || string(s[0].Value) != "new" || s[0].Version != 2 || s[0].Left != 2*time.Second ||
				s[0].Token != vote.Token(100).First() {
				t.Fatalf("the newer value first %v, states %v: %+v", youngFirst, states, s)
			}
		}
	}
}

func TestALookEndsWithoutAMajority(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	look := b.q.Query(b.now, "k")
	revoke := b.q.Revoke(b.now, "k", "why")
	if got := b.sentTo("v1"); got != "query revoke" {
		t.Fatalf("told %q", got)
	}
	b.show("v1", look, viewEntry(vote.Holding, "a", 1, vote.Exclusive, 100))
	b.sends("v1", vote.Message{Kind: vote.KindRevokeForwarded, Nonce: revoke, Count: 1})
	if d := b.q.Next().Sub(b.now.Fast); d > ttl {
		t.Fatalf("looks at the time in %v", d)
	}
	for range 6 {
		b.pass(ttl / 5)
	}
	if e := b.last(EventQueryDone); e == nil || e.Nonce != look || e.Result != nil || e.Wait.Reason != WaitNoQuorum {
		t.Errorf("the look: %+v", e)
	}
	if e := b.last(EventRevokeForwarded); e == nil || e.Nonce != revoke || e.Wait.Reason != WaitNoQuorum {
		t.Errorf("the revocation: %+v", e)
	}
	before := len(b.events)
	b.show("v0", look)
	if len(b.events) != before {
		t.Errorf("a late answer is told: %+v", b.events[before:])
	}
}

func TestARevocationCountsHoldersAsTheVoterThatKnowsMost(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.q.Revoke(b.now, "k", "why")
	b.sends("v1", vote.Message{Kind: vote.KindRevokeForwarded, Nonce: n, Count: 2})
	b.sends("v0", vote.Message{Kind: vote.KindRevokeForwarded, Nonce: n, Count: 0})
	if e := b.last(EventRevokeForwarded); e == nil || e.Nonce != n || e.Count != 2 || e.Wait.Reason != WaitNone {
		t.Fatalf("%+v", e)
	}
}

// news has a voter report events.
func (b *bench) news(v vote.NodeID, nonce, seq uint64, gap bool, views ...vote.View) {
	b.sends(v, vote.Message{Kind: vote.KindEvents, Nonce: nonce, Incarnation: 5, Seq: seq, Gap: gap, Views: views})
}

func TestAWatchGoesOn(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	n := b.q.Watch(b.now, "k", true)
	if got := b.sentTo("v0"); got != "watch" {
		t.Fatalf("told %q", got)
	}
	b.news("v0", n, 7, true)
	held := viewEntry(vote.Holding, "a", 1, vote.Exclusive, 100)
	b.news("v0", n, 8, false, held)
	b.news("v0", n, 8, false, held) // the same answer to another question
	if got := b.sentTo("v0"); got != "watch watch" {
		t.Fatalf("told %q after an answer each", got)
	}
	told := 0
	for _, e := range b.events {
		if e.Kind == EventNews {
			told++
		}
	}
	if e := b.last(EventNews); told != 2 || e.Nonce != n || e.Place != 0 || e.Gap || len(e.Views) != 1 {
		t.Fatalf("%d news, the last %+v", told, e)
	}
	// The link breaks. The voter is asked for all events since the last answer.
	b.q.Unlink(b.now, b.place("v0"))
	b.link("v0")
	b.drain()
	var again vote.Message
	for _, m := range b.outbox["v0"] {
		if m.Kind == vote.KindWatch {
			again = m
		}
	}
	if again.Seq != 8 || again.Incarnation != 5 || again.Nonce != n || !again.Prefix {
		t.Fatalf("asked anew for %+v", again)
	}
	b.sentTo("v0")
	// A voter with too many watches drops this watch by an answer without events. The watch is sent
	// again, but not at once: many such watches would keep the voter busy.
	b.news("v0", n, 8, false)
	if got := b.sentTo("v0"); got != "" {
		t.Fatalf("told %q at once", got)
	}
	b.pass(ttl / 5)
	if got := b.sentTo("v0"); got != "refresh watch" {
		t.Fatalf("told %q at the next refresh", got)
	}
	b.q.Unwatch(b.now, n)
	if got := b.sentTo("v0"); got != "watch" { // this message ends the watch
		t.Fatalf("told %q at the end", got)
	}
	b.news("v0", n, 9, false, held)
	if got := b.sentTo("v0"); got != "" {
		t.Fatalf("told %q when the watch was over", got)
	}
}
