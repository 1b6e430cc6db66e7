package lease

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// listener is a conversation with a voter in which a node watches all keys over a connection of its
// own.
type listener struct {
	*talk
	t    *testing.T
	seq  uint64
	conn vote.Conn
}

func listen(t *testing.T, lines ...string) *listener {
	t.Helper()
	l := &listener{talk: newTalk(), t: t, conn: 99}
	l.all(t, "awake 3", "a opens", "b opens")
	l.news()
	l.all(t, lines...)
	return l
}

// views asks for the votes and the requests of a key, over the listener's connection.
func (l *listener) views(key vote.Key) []vote.View {
	out := l.v.Step(l.now, l.conn, vote.SessionID{Node: "w", Incarnation: 1}, &vote.Message{Kind: vote.KindQuery, Nonce: 1, Spec: vote.Spec{Key: key}}, nil)
	return out[0].Message.Views
}

// news asks for the events since the last call, and returns the events as text.
func (l *listener) news() []string {
	l.t.Helper()
	m := vote.Message{Kind: vote.KindWatch, Nonce: 1, Prefix: true, Incarnation: 9, Seq: l.seq}
	if l.seq == 0 {
		m.Incarnation = 0
	}
	var words []string
	for _, o := range l.v.Step(l.now, l.conn, vote.SessionID{Node: "w", Incarnation: 1}, &m, nil) {
		l.seq = o.Message.Seq
		for _, s := range o.Message.Views {
			words = append(words, fmt.Sprintf("%d %s%d@%d/%d", s.State, s.Owner.Node, s.Number, s.Token, s.Slot))
		}
	}
	l.v.Step(l.now, l.conn, vote.SessionID{Node: "w", Incarnation: 1}, &vote.Message{Kind: vote.KindWatch, Nonce: 1, Prefix: true, End: true}, nil)
	if n := l.v.Watchers(); n != 0 {
		l.t.Errorf("%d watches wait after they have ended", n)
	}
	if l.seq == 0 {
		l.seq = 1 // before the first event
		l.v.news.seq = 1
	}
	return words
}

func (l *listener) want(words ...string) {
	l.t.Helper()
	if got := l.news(); !slices.Equal(got, words) {
		l.t.Errorf("told %q, want %q", got, words)
	}
}

func word(what vote.State, rest string) string { return fmt.Sprintf("%d %s", what, rest) }

func TestNewsOfALeaseThatWasWonWithoutThisVoterHaveItsTokenAndSlot(t *testing.T) {
	l := listen(t, "a asks 1:k permits=1 at=10 hint=100", "b asks 1:k permits=1 at=20 hint=100")
	l.want(word(vote.Waiting, "b1@0/0"))
	l.all(t, "b confirms 1 serial=0 token=5000 slot=1 won")
	l.want(word(vote.GrantedElsewhere, "b1@5000/1"))
	l.all(t, "b syncs 1:k:won=5000 2:j:won=7000")
	l.want(word(vote.GrantedElsewhere, "b2@7000/0"))
}

func TestNewsOfALeaseWhoseVoteIsForAnotherSlot(t *testing.T) {
	l := listen(t, "a asks 1:k permits=3 at=10 hint=100")
	slot := l.v.Votes("k")[0].Slot
	other := slot%3 + 1
	l.all(t, fmt.Sprintf("a confirms 1 serial=1 token=115 slot=%d won", other))
	l.want(word(vote.GrantedElsewhere, fmt.Sprintf("a1@115/%d", other)))
}

// The owner's report of a win crosses a new vote of the voter for the same request.
func TestNewsOfALeaseWhoseVoteWasGivenAnew(t *testing.T) {
	l := listen(t, "a asks 1:k at=10 hint=100", "a confirms 1 serial=7 token=200 won")
	l.want(word(vote.Holding, "a1@200/0"))
	l.all(t, "a releases 1")
	l.want(word(vote.Released, "a1@100/0"))
}

func TestNewsOfAVoteWhoseOwnerIsGone(t *testing.T) {
	l := listen(t, "a asks 1:k at=10 hint=100", "pass 2s")
	l.want(word(vote.Ended, "a1@100/0")) // the vote may have been part of a lease
}

func TestNewsOfAWaiterThatGivesUp(t *testing.T) {
	l := listen(t, "a asks 1:k at=10 hint=100", "b asks 1:k at=20 hint=100", "b asks 2:k at=20 hint=100 try", "b releases 1", "b releases 2")
	l.want(word(vote.Waiting, "b1@0/0"), word(vote.Released, "b1@0/0"))
}

func TestALeaseThatOutlivesItsNodeEndsInTheNewsWhenItIsOver(t *testing.T) {
	l := listen(t, "a opens ttl=200ms", "a asks 1:k length=900ms at=10 hint=100", "a confirms 1 serial=1 token=115 won", "a extends 1 serial=1", "pass 500ms")
	l.want(word(vote.Holding, "a1@115/0"))
	l.all(t, "pass 300ms")
	l.want()
	l.all(t, "pass 300ms")
	l.want(word(vote.Ended, "a1@115/0"))
}

func TestALeaseThatWasGivenBackIsNotShownAsHeld(t *testing.T) {
	l := listen(t, "a asks 1:k length=900ms minhold=900ms at=10 hint=100", "a confirms 1 serial=1 token=115 won", "a extends 1 serial=1", "a releases 1")
	l.want(word(vote.Holding, "a1@115/0"), word(vote.Released, "a1@115/0"))
	if s := l.views("k"); len(s) != 1 || s[0].State != vote.Delayed {
		t.Errorf("%+v", s)
	}
}

// A requester may ask for a larger token and win with the smaller token meanwhile.
func TestAVoteThatWasRaisedIsShownWithoutAToken(t *testing.T) {
	l := listen(t)
	see := func(what vote.State, token vote.Token) {
		t.Helper()
		if s := l.views("k"); len(s) != 1 || s[0].State != what || s[0].Token != token {
			t.Errorf("it shows %+v, want %v with token %d", s, what, token)
		}
	}
	l.all(t, "a asks 1:k at=10 hint=100")
	see(vote.Promised, 100)
	l.all(t, "a confirms 1 serial=1 token=200")
	see(vote.Promised, 0)
	l.all(t, "a confirms 1 serial=1 token=115 won")
	see(vote.Holding, 115)
	l.want(word(vote.Holding, "a1@115/0"))
}

func TestALookAtAPrefixIsInOrderAndBounded(t *testing.T) {
	l := listen(t)
	for i := range 300 {
		l.all(t, fmt.Sprintf("a asks %d:p/%03d at=10", i+1, i), fmt.Sprintf("b asks %d:q/%03d at=10", i+1, i))
	}
	look := func(prefix string) (keys []string, gap bool) {
		m := vote.Message{Kind: vote.KindQuery, Nonce: 1, Prefix: true, Spec: vote.Spec{Key: vote.Key(prefix)}}
		out := l.v.Step(l.now, 99, vote.SessionID{Node: "w", Incarnation: 1}, &m, nil)
		for len(out) == 0 || !out[len(out)-1].Message.End {
			l.now.Slow = max(l.now.Slow, l.v.Next())
			out = l.v.Tick(l.now, out)
		}
		for i, o := range out {
			if len(o.Message.Views) > vote.MaxViews {
				t.Fatalf("%d views in chunk %d", len(o.Message.Views), i)
			}
			for _, s := range o.Message.Views {
				keys = append(keys, string(s.Key))
			}
			gap = o.Message.Gap
		}
		return keys, gap
	}
	keys, gap := look("p/")
	if len(keys) != 300 || gap || !slices.IsSorted(keys) || !strings.HasPrefix(keys[0], "p/") || !strings.HasPrefix(keys[299], "p/") {
		t.Errorf("%d keys, gap %v", len(keys), gap)
	}
	if keys, _ := look(""); len(keys) != 600 {
		t.Errorf("%d keys of all", len(keys))
	}
	for i := range 5 {
		k := l.v.keys.find(vote.Key(fmt.Sprintf("p/%03d", i)))
		l.v.spares.coldFor(k.votes.all()[0]).value = make([]byte, vote.MaxQueriedBytes/4)
	}
	if keys, gap := look("p/"); len(keys) != 5 || !gap {
		t.Errorf("%d keys with large values, gap %v", len(keys), gap)
	}
}

func TestAWatchForWhichThereIsNoRoomIsToldToAskAgain(t *testing.T) {
	l := listen(t)
	ask := func(nonce uint64) []vote.Outbound {
		m := vote.Message{Kind: vote.KindWatch, Nonce: nonce, Spec: vote.Spec{Key: "k"}, Incarnation: 9, Seq: l.seq}
		return l.v.Step(l.now, 99, vote.SessionID{Node: "w", Incarnation: 1}, &m, nil)
	}
	for i := range watchersMax {
		if out := ask(uint64(i + 1)); len(out) != 0 {
			t.Fatalf("watch %d is answered: %+v", i, out)
		}
	}
	if out := ask(watchersMax + 1); len(out) != 1 || out[0].Message.Gap || len(out[0].Message.Views) != 0 {
		t.Errorf("%+v", out)
	}
	l.v.Unlink(l.now, 99, nil)
	if n := l.v.Watchers(); n != 0 {
		t.Errorf("%d watches are left of a connection that is gone", n)
	}
}
