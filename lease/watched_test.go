package lease

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// watch has a node watch a key, or all keys with a prefix, from now on.
func (b *booth) watch(key vote.Key, prefix bool) {
	m := vote.Message{Kind: vote.KindWatch, Nonce: 1, Prefix: prefix, Spec: vote.Spec{Key: key}, Incarnation: 9, Seq: b.v.news.seq}
	b.hear(b.v.Step(b.now, 99, vote.SessionID{Node: "w", Incarnation: 1}, &m, nil))
}

// isToldOnVote reports whether a vote for a key carries the flag that another node wants the key.
func (b *booth) isToldOnVote(key vote.Key, mode vote.Mode) (told bool) {
	b.tb.Helper()
	c := b.sessions[0]
	c.number++
	w := vote.Spec{Key: key, Mode: mode}
	if mode == vote.Permit {
		w.Permits = 2
	}
	m := vote.Message{Kind: vote.KindRequest, Stream: 1, Number: c.number, Spec: w, Time: b.now.Wall, TokenHint: vote.TokenAt(b.now.Wall)}
	votes, out := 0, b.v.Step(b.now, c.conn, c.id, &m, nil)
	b.hear(out)
	for _, o := range out {
		if o.Message.Kind == vote.KindPromise {
			votes++
			told = o.Message.Revoke
		}
	}
	if votes != 1 {
		b.tb.Fatalf("%d votes for %q", votes, key)
	}
	b.win(c)
	b.giveBack(c, c.number) // watches receive both events
	return told
}

// The holder of a watched key is told of other interest in the key, so that no hand-off goes unseen
// by a watch.
func TestAWatchedKeyIsNotPassedOnWithinANode(t *testing.T) {
	b := newBooth(t, 2)
	want := func(what string, key vote.Key, want bool) {
		t.Helper()
		if got := b.isToldOnVote(key, vote.Exclusive); got != want {
			t.Errorf("%s: a vote for %q says %t, want %t", what, key, got, want)
		}
	}
	want("nobody watches", "p/k", false)
	b.watch("k", false)
	want("another key is watched", "p/k", false)
	want("it is watched", "k", true)
	b.watch("p/", true)
	want("its prefix is watched", "p/k", true)
	want("its name is shorter than the prefix", "p", false)
	if b.isToldOnVote("k", vote.Permit) {
		t.Error("permits aren't passed on in any case")
	}
	b.watch("k", false) // again, since the watch was answered at the end of the vote
	for range 20 {      // no event occurs on the keys, and the watches wait
		b.pass(time.Second)
		b.refreshAll()
	}
	want("a watch waits for long", "q", false)
	want("a watch waits for long", "k", true)
	want("a watch was told just now and hasn't asked again", "k", true)
	for range 11 {
		b.pass(time.Second)
		b.refreshAll()
	}
	want("a watch that was told long ago has gone", "k", false)
}

// The holder of a key is told when a watch of the key begins, once.
func TestTheHolderHearsThatItsKeyIsWatched(t *testing.T) {
	b := newBooth(t, 2)
	c := b.sessions[0]
	b.ask(c, "k")
	b.win(c)
	wanted := func() (n int) {
		m := vote.Message{Kind: vote.KindWatch, Nonce: 1, Spec: vote.Spec{Key: "k"}, Incarnation: 9, Seq: b.v.news.seq}
		for _, o := range b.v.Step(b.now, 99, vote.SessionID{Node: "w", Incarnation: 1}, &m, nil) {
			if o.Message.Kind == vote.KindContended && o.Message.Number == c.number && !o.Message.Revoke && o.Message.Who == "w" {
				n++
			}
		}
		return n
	}
	if n := wanted(); n != 1 {
		t.Errorf("the holder hears of it %d times", n)
	}
	if n := wanted(); n != 0 {
		t.Errorf("and %d times more", n)
	}
}

// The number of remembered watches is bounded, and each is forgotten in time.
func TestWatchesOfLongAgoAreForgotten(t *testing.T) {
	var w watched
	const most = 10 * time.Second
	now := vote.Instant(1)
	for i := range 2 * watchersMax {
		if begins := w.note(interest{vote.Key(fmt.Sprint("prefix", i)), i%2 == 0}, now, most, 0); begins != (i < watchersMax) {
			t.Fatalf("watch %d begins: %t", i, begins)
		}
	}
	now = now.Add(most)
	w.note(interest{"k", false}, now, most, 0)
	if len(w.of) != 1 || len(w.lengths) != 0 {
		t.Errorf("%d interests with %d lengths are remembered", len(w.of), len(w.lengths))
	}
}

// The end of a lease for its holder or with its session is reported to watches at once, even if a
// lock-delay blocks the key afterwards. (Found by worlds with watches.)
func TestTheEndOfALeaseWithADelayIsReported(t *testing.T) {
	for name, ends := range map[string]func(b *booth){
		"its holder says so":    func(b *booth) { b.say(b.sessions[0], vote.Message{Kind: vote.KindRelease, Number: 1, Lost: true}) },
		"its session is silent": func(b *booth) { b.pass(11 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooth(t, 2)
			b.watch("k", false)
			c := b.sessions[0]
			b.gather(c, "k", vote.Spec{Mode: vote.Exclusive, Length: time.Second, Delay: 2 * time.Second}, 1)
			b.win(c)
			ends(b)
			events := b.v.news.ring
			if n := len(events); n == 0 || events[n-1].State != vote.Ended || events[n-1].Number != 1 {
				t.Errorf("the events are %+v", events)
			}
		})
	}
}
