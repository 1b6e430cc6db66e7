package lease

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// steadyFor returns for how long, by its answer to a query, the voter has lost no vote other than
// votes released by their owner.
func (b *booth) steadyFor() time.Duration {
	b.tb.Helper()
	m := vote.Message{Kind: vote.KindQuery, Nonce: 7, Spec: vote.Spec{Key: "any"}}
	for _, o := range b.v.Step(b.now, 99, vote.SessionID{Node: "w", Incarnation: 1}, &m, nil) {
		if o.Message.Kind == vote.KindQueryResult && o.Message.End {
			return o.Message.TTL
		}
	}
	b.tb.Fatal("the look isn't answered")
	return 0
}

// Queries rely on this duration: a lease may go on by the votes of other voters although its vote
// here was lost.
func TestAShowSaysSinceWhenNoVoteWasLost(t *testing.T) {
	const a = 100 * time.Millisecond
	spec := func(w vote.Spec) func(b *booth) {
		return func(b *booth) {
			c := b.sessions[0]
			b.gather(c, "k", w, 1)
			b.win(c)
		}
	}
	held := vote.Spec{Mode: vote.Exclusive}
	for _, row := range []struct {
		name  string
		hold  func(b *booth)
		ends  func(b *booth)
		steps int // until the vote is over, in units of a
		lost  bool
	}{
		{"a lease is given back", spec(held), func(b *booth) { b.giveBack(b.sessions[0], 1) }, 0, false},
		{"a lease is lost, as its owner says", spec(held), func(b *booth) { b.say(b.sessions[0], vote.Message{Kind: vote.KindRelease, Number: 1, Lost: true}) }, 0, false},
		{"a session falls silent", spec(held), func(b *booth) {}, 100, true},
		{"a vote outlasts its length", spec(vote.Spec{Mode: vote.Exclusive, Length: 10 * a}), func(b *booth) {
			b.say(b.sessions[0], vote.Message{Kind: vote.KindExtend, Number: 1, Serial: b.sessions[0].serial})
			for range 10 {
				b.pass(a)
				b.refreshAll()
			}
		}, 1, true},
		{"what kept a key after its lease is over", spec(vote.Spec{Mode: vote.Exclusive, MinHold: 10 * a}), func(b *booth) {
			b.giveBack(b.sessions[0], 1)
			b.pass(9 * a)
			b.refreshAll()
		}, 1, true},
		{"a permit moves to another slot", spec(vote.Spec{Mode: vote.Permit, Permits: 2}), func(b *booth) {
			b.say(b.sessions[0], vote.Message{Kind: vote.KindYield, Number: 1, Serial: b.sessions[0].serial, Slot: 2})
		}, 0, true},
		{"a request that hasn't won yields", func(b *booth) { b.ask(b.sessions[0], "k") }, func(b *booth) {
			b.say(b.sessions[0], vote.Message{Kind: vote.KindYield, Number: 1, Serial: b.sessions[0].serial})
		}, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBooth(t, 2)
			row.hold(b)
			b.pass(a)
			b.refreshAll()
			was := b.steadyFor()
			from := b.now.Slow
			row.ends(b)
			b.pass(time.Duration(row.steps) * a)
			passed := b.now.Slow.Sub(from)
			if is := b.steadyFor(); row.lost && is > passed || !row.lost && is != was+passed {
				t.Errorf("it was steady for %v, and is for %v; meanwhile %v passed", was, is, passed)
			}
		})
	}
}
