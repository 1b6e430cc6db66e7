package quorum

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func (b *bench) quiet(v vote.NodeID, d time.Duration) {
	b.q.Link(b.now, b.place(v), vote.SessionID{Node: v, Incarnation: 5})
	b.sends(v, vote.Message{Kind: vote.KindAnswer, End: true, Sent: b.q.peerOf(v).syncSent, Incarnation: 5, Generation: b.gen, Wall: b.now.Wall, Quiet: d})
}

// asked returns the messages of a kind sent to a voter since the last call, and forgets the others.
func (b *bench) asked(v vote.NodeID, kind vote.Kind) (all []vote.Message) {
	b.drain()
	for _, m := range b.outbox[v] {
		if m.Kind == kind {
			all = append(all, m)
		}
	}
	b.outbox[v] = nil
	return all
}

func (b *bench) shows(v vote.NodeID, nonce uint64, views ...vote.View) {
	b.sends(v, vote.Message{Kind: vote.KindQueryResult, Nonce: nonce, End: true, TTL: time.Hour, Views: views})
}

func TestAQuietVotersAnswerDoesntCountInALook(t *testing.T) {
	b := newBench(t, 3)
	b.link("v0")
	b.quiet("v1", 100*time.Millisecond)
	nonce := b.q.Query(b.now, "k")
	b.shows("v0", nonce)
	b.shows("v1", nonce) // a quiet voter may have forgotten a lease that stands
	if b.last(EventQueryDone) != nil {
		t.Fatal("a quiet voter was counted")
	}
	b.asked("v1", vote.KindQuery)
	b.pass(150 * time.Millisecond)
	b.sends("v1", vote.Message{Kind: vote.KindAck, Sent: b.q.peerOf("v1").refreshed, Incarnation: 5, Generation: b.gen, Wall: b.now.Wall})
	if again := b.asked("v1", vote.KindQuery); len(again) != 1 || again[0].Nonce != nonce {
		t.Fatalf("it isn't asked again when it counts: %v", again)
	}
	b.shows("v1", nonce, vote.View{State: vote.Holding, Key: "k", Owner: vote.SessionID{Node: "x", Incarnation: 1}, Number: 1, Mode: vote.Exclusive, Token: 99})
	if e := b.last(EventQueryDone); e == nil || e.Wait.Reason != WaitNone || len(e.Result.Views) != 1 || e.Result.Views[0].Token != vote.Token(99).First() {
		t.Errorf("%+v", e)
	}
}

func TestAVoterThatComesLaterIsAskedWhatOthersAreAsked(t *testing.T) {
	b := newBench(t, 3)
	b.link("v0")
	look := b.q.Query(b.now, "k")
	revoke := b.q.Revoke(b.now, "k", "why")
	b.shows("v0", look)
	b.sends("v0", vote.Message{Kind: vote.KindRevokeForwarded, Nonce: revoke, Count: 1})
	b.link("v1")
	if n := len(b.asked("v1", vote.KindQuery)); n != 1 {
		t.Errorf("asked %d times", n)
	}
	b.q.Unlink(b.now, b.place("v1"))
	b.link("v1")
	b.drain()
	if l, r := 0, 0; true {
		for _, m := range b.outbox["v1"] {
			if m.Kind == vote.KindQuery {
				l++
			}
			if m.Kind == vote.KindRevoke {
				r++
			}
		}
		if l != 1 || r != 0 { // holders receive a revoke request once
			t.Errorf("after a break asked %d times to show, %d times to revoke", l, r)
		}
	}
	b.shows("v1", look)
	if e := b.last(EventQueryDone); e == nil || e.Wait.Reason != WaitNone {
		t.Errorf("%+v", e)
	}
	b.pass(2 * ttl)
	if e := b.last(EventRevokeForwarded); e == nil || e.Nonce != revoke || e.Wait.Reason != WaitNoQuorum {
		t.Errorf("the revocation ended with %+v", e)
	}
}

// The beginning of an answer may be lost if the answer was on its way when the voter was asked
// again.
func TestWhatIsLeftOfAnEarlierAnswerIsNoPartOfALook(t *testing.T) {
	b := newBench(t, 3)
	b.link("v0")
	b.quiet("v1", 100*time.Millisecond)
	nonce := b.q.InspectForWatch(b.now, "", true)
	b.shows("v0", nonce)
	b.asked("v1", vote.KindQuery)
	b.pass(150 * time.Millisecond)
	b.sends("v1", vote.Message{Kind: vote.KindAck, Sent: b.q.peerOf("v1").refreshed, Incarnation: 5, Generation: b.gen, Wall: b.now.Wall})
	again := b.asked("v1", vote.KindQuery)
	if len(again) != 1 || again[0].Nonce == nonce {
		t.Fatalf("it isn't asked again when it counts: %v", again)
	}
	b.shows("v1", nonce)
	if e := b.last(EventQueryDone); e != nil {
		t.Fatalf("the rest of the first answer is taken for all of the second: %+v", e)
	}
	b.sends("v1", vote.Message{
		// No vote was lost for a minute.
		Kind: vote.KindQueryResult, Nonce: again[0].Nonce, End: true, TTL: time.Minute,
		Views: []vote.View{{
			State: vote.Waiting, Key: "k", Owner: vote.SessionID{Node: "x", Incarnation: 1}, Number: 1, Mode: vote.Exclusive,
		}},
	})
	if e := b.last(EventQueryDone); e == nil || e.Nonce != nonce || len(e.Result.Views) != 1 {
		t.Errorf("%+v", e)
	}
}

// Queries for prefixes wait for each other, since each answer may take megabytes; a waiting query
// doesn't time out.
func TestFewLooksAtPrefixesAreUnderWayAtOnce(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	var nonces []uint64
	for range 3 * maxPrefixQueries {
		nonces = append(nonces, b.q.InspectForWatch(b.now, "p", true))
	}
	key := b.q.Query(b.now, "k") // this query waits for no query of a prefix
	if asked := b.asked("v0", vote.KindQuery); len(asked) != maxPrefixQueries+1 || asked[maxPrefixQueries].Nonce != key {
		t.Fatalf("%d looks are put to a voter", len(asked))
	}
	for i, nonce := range nonces[:maxPrefixQueries] {
		b.shows("v0", nonce)
		b.shows("v1", nonce)
		if asked := b.asked("v0", vote.KindQuery); len(asked) != 1 || asked[0].Nonce != nonces[maxPrefixQueries+i] {
			t.Fatalf("after look %d come %v", i, asked)
		}
	}
	// Queries without an answer make room for the waiting queries, which then have their whole
	// time.
	for range 2 {
		b.pass(ttl)
	}
	if n := len(b.asked("v0", vote.KindQuery)); n != maxPrefixQueries {
		t.Errorf("%d looks follow", n)
	}
}

func TestAListIsCutWhereAVoterShowedNoMore(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	nonce := b.q.InspectForWatch(b.now, "", true)
	viewEntryOf := func(key vote.Key, number vote.Number) vote.View {
		return vote.View{State: vote.Holding, Key: key, Owner: vote.SessionID{Node: "x", Incarnation: 1}, Number: number, Mode: vote.Exclusive, Token: 100}
	}
	b.sends("v0", vote.Message{Kind: vote.KindQueryResult, Nonce: nonce, Views: []vote.View{viewEntryOf("a", 1)}})
	b.sends("v0", vote.Message{Kind: vote.KindQueryResult, Nonce: nonce, Views: []vote.View{viewEntryOf("b", 2)}, End: true, Gap: true})
	b.shows("v1", nonce, viewEntryOf("a", 1), viewEntryOf("b", 2), viewEntryOf("c", 3))
	e := b.last(EventQueryDone)
	if e == nil || !e.Result.Truncated || e.Result.Last != "b" || len(e.Result.Views) != 2 {
		t.Errorf("%+v", e.Result)
	}
}

func TestAWatchIsAskedAgainWhereThereWasNoRoom(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	nonce := b.q.Watch(b.now, "k", false)
	b.asked("v0", vote.KindWatch)
	b.sends("v0", vote.Message{Kind: vote.KindEvents, Nonce: nonce, Incarnation: 5, Seq: 7, Gap: true})
	if w := b.asked("v0", vote.KindWatch); len(w) != 1 || w[0].Seq != 7 || w[0].Incarnation != 5 {
		t.Fatalf("%+v", w)
	}
	for later := range uint64(2) { // before v0 is given up as silent
		b.sends("v0", vote.Message{Kind: vote.KindEvents, Nonce: nonce, Incarnation: 5, Seq: 7 + later})
		if w := b.asked("v0", vote.KindWatch); len(w) != 0 {
			t.Fatalf("asked again at once: %+v", w)
		}
		b.pass(ttl / 5)
		if w := b.asked("v0", vote.KindWatch); len(w) != 1 {
			t.Fatalf("asked %d times with the refresh", len(w))
		}
	}
	b.q.Unwatch(b.now, nonce)
	if w := b.asked("v0", vote.KindWatch); len(w) != 1 || !w[0].End {
		t.Errorf("%+v", w)
	}
}

// A voter that was removed and added again may answer an earlier watch, while this node remembers
// none of the earlier answers.
func TestNewsOfAVoterThatWasVotedInAgainBeginWithAGap(t *testing.T) {
	b := newBench(t, 3)
	b.all()
	nonce := b.q.Watch(b.now, "k", false)
	s := vote.View{State: vote.Holding, Key: "k", Owner: vote.SessionID{Node: "x", Incarnation: 1}, Number: 1, Mode: vote.Exclusive, Token: 99}
	for seq, want := range []bool{true, false} {
		b.asked("v0", vote.KindWatch)
		b.sends("v0", vote.Message{Kind: vote.KindEvents, Nonce: nonce, Incarnation: 5, Seq: uint64(7 + seq), Views: []vote.View{s}})
		if e := b.last(EventNews); e == nil || e.Gap != want || len(e.Views) != 1 {
			t.Errorf("news %d: %+v", seq, e)
		}
	}
}
