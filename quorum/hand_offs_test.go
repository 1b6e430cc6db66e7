package quorum

import (
	"slices"
	"testing"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// passedOnTwice returns a bench with a lease that was handed off twice, and the present holder.
func passedOnTwice(t *testing.T) (b *bench, holder vote.Number) {
	b, first, waits := wonAtOnce(t, 2)
	b.q.Release(b.now, first)
	b.q.Release(b.now, waits[0])
	b.granted(waits[1], true)
	b.sentTo("v0")
	return b, waits[1]
}

// TestAHolderSaysHowOftenItsLeaseWasHandedOff shows that a holder reports the number of hand-offs
// to each voter once, when the holder is asked, changes the mode, or sets a value. From then on the
// lease isn't handed off.
func TestAHolderSaysHowOftenItsLeaseWasHandedOff(t *testing.T) {
	asked := func(b *bench, holder vote.Number) {
		for _, v := range b.names {
			b.sends(v, vote.Message{Kind: vote.KindContended, Number: b.q.Alias(holder), Who: "x", Token: vote.AskHandOffs})
		}
	}
	for _, row := range []struct {
		name   string
		change func(b *bench, holder vote.Number)
		want   []uint64
	}{
		{"asked", asked, []uint64{vote.CountHandOffs(0, 2)}},
		{"asked twice", func(b *bench, holder vote.Number) {
			asked(b, holder)
			asked(b, holder)
		}, []uint64{vote.CountHandOffs(0, 2)}},
		{"shared", func(b *bench, holder vote.Number) { b.q.Downgrade(b.now, holder) }, []uint64{vote.CountHandOffs(0, 2)}},
		{"shared and asked", func(b *bench, holder vote.Number) {
			b.q.Downgrade(b.now, holder)
			asked(b, holder)
		}, []uint64{vote.CountHandOffs(0, 2)}},
		{"with a value", func(b *bench, holder vote.Number) {
			if v := b.q.SetValue(b.now, holder, []byte("v")); v != 1 {
				b.t.Errorf("the first value has version %d", v)
			}
			asked(b, holder)
		}, []uint64{vote.CountHandOffs(1, 2)}},
		{"asked and then with values", func(b *bench, holder vote.Number) {
			asked(b, holder)
			b.q.SetValue(b.now, holder, []byte("u"))
			if v := b.q.SetValue(b.now, holder, []byte("v")); v != 2 {
				b.t.Errorf("the second value has version %d", v)
			}
		}, []uint64{vote.CountHandOffs(0, 2), vote.CountHandOffs(1, 2), vote.CountHandOffs(2, 2)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			b, holder := passedOnTwice(t)
			later := b.lock(false)
			row.change(b, holder)
			if got := b.values("v0"); !slices.Equal(got, row.want) {
				t.Errorf("v0 hears of the versions %d, want %d", got, row.want)
			}
			b.noted("v0", b.q.Alias(holder), row.want[len(row.want)-1])
			b.noted("v1", b.q.Alias(holder), row.want[len(row.want)-1])
			value, _ := vote.ReadVersion(row.want[len(row.want)-1])
			if e := b.last(EventValueSet); (e != nil) != (value > 0) || e != nil && e.Version != value {
				t.Errorf("the event %+v, want one about value %d only", e, value)
			}
			b.q.Release(b.now, holder)
			b.granted(later, false)
		})
	}
	t.Run("asked of a lease that was never handed off", func(t *testing.T) {
		b, first, _ := wonAtOnce(t, 1)
		asked(b, first)
		if got := b.values("v0"); !slices.Equal(got, []uint64{vote.CountHandOffs(0, 0)}) {
			t.Errorf("v0 hears of the versions %d", got)
		}
		b.q.SetValue(b.now, first, []byte("v"))
		if got := b.values("v0"); !slices.Equal(got, []uint64{vote.CountHandOffs(1, 0)}) {
			t.Errorf("v0 hears of the versions %d after a value", got)
		}
	})
}

// TestTheTokenOfThePresentHolderEvicts shows that a revoke request with the token of an earlier
// caller evicts no holder.
func TestTheTokenOfThePresentHolderEvicts(t *testing.T) {
	b, holder := passedOnTwice(t)
	first := vote.Token(100).First()
	for n := range vote.Token(4) {
		b.sends("v0", vote.Message{Kind: vote.KindContended, Number: b.q.Alias(holder), Who: "x", Text: "why", Revoke: true, Token: first + n})
		if e := b.last(EventEvicted); (e != nil) != (n >= 2) {
			t.Errorf("with token %d: %+v", first+n, e)
		}
	}
}
