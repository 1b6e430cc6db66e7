package lockmesh

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// isOver reports whether a lease's Done is closed.
func isOver(l *Lease) bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

type kept struct{}

type other struct{}

func TestTheContextOfALeaseWheneverItIsAskedFor(t *testing.T) {
	for _, end := range []struct {
		name string
		do   func(w *wire, m *Mesh, l *Lease)
		want error
	}{
		{"released", func(w *wire, _ *Mesh, l *Lease) { _ = l.Unlock(w.t.Context()) }, ErrReleased},
		{"lost", func(w *wire, _ *Mesh, l *Lease) {
			w.stall("a", true)
			time.Sleep(2 * DefaultMaxTTL)
		}, ErrLost},
		{"lost, as only the clock says", func(w *wire, m *Mesh, _ *Lease) { w.clocks[m].Set(time.Hour) }, ErrLost},
		{"given back by Leave", func(w *wire, m *Mesh, _ *Lease) { _ = m.Leave(w.t.Context()) }, ErrReleased},
		{"lost by Close", func(_ *wire, m *Mesh, _ *Lease) { _ = m.Close() }, ErrClosed},
	} {
		for _, nested := range []bool{false, true} {
			t.Run(end.name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *wire) {
					a, _, _ := w.three()
					asked, cancel := context.WithCancel(context.WithValue(t.Context(), kept{}, "value"))
					early, late := must[*Lease](t)(a.Lock(asked, "k")), must[*Lease](t)(a.Lock(asked, "l"))
					if nested {
						early, late = must[*Lease](t)(a.Lock(early.Context(), "k")), must[*Lease](t)(a.Lock(late.Context(), "l"))
					}
					cancel() // the context bounds only the wait for the lock
					ctx := early.Context()
					child, stop := context.WithCancel(context.WithValue(ctx, other{}, "no matter"))
					defer stop()
					if early.Err() != nil || isOver(early) || ctx.Err() != nil || child.Err() != nil || context.Cause(ctx) != nil {
						t.Fatal("it has ended though it is held")
					}
					for _, l := range []*Lease{early.root(), late.root()} {
						end.do(w, a, l)
					}
					synctest.Wait()
					for when, l := range map[string]*Lease{"before the end": early, "after it": late} {
						wantIs(t, l.Err(), end.want)
						if !isOver(l) {
							t.Errorf("asked for %s: Done is open", when)
						}
						ctx := l.Context()
						if ctx.Err() == nil || ctx.Value(kept{}) != "value" || child.Err() == nil && l == early {
							t.Errorf("asked for %s: error %v, value %v, that of a child %v", when, ctx.Err(), ctx.Value(kept{}), child.Err())
						}
						wantIs(t, context.Cause(ctx), end.want)
					}
					wantIs(t, context.Cause(child), end.want)
					if ctx.Err() == nil || context.Cause(ctx) != context.Cause(early.Context()) {
						t.Errorf("two contexts of one lease have ended by %v and %v", context.Cause(ctx), context.Cause(early.Context()))
					}
				})
			})
		}
	}
}

func TestWishesArriveWheneverTheyAreAskedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		lease := must[*Lease](t)(a.Lock(t.Context(), "k"))
		wish := func(why string) {
			t.Helper()
			if err := b.Revoke(t.Context(), "k", WithReason(why)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		read := func(want string) {
			t.Helper()
			select {
			case got := <-lease.Revoked():
				if got.Node != "b" || got.Reason != want {
					t.Errorf("%+v, want %q", got, want)
				}
			default:
				t.Errorf("%q hasn't arrived", want)
			}
		}
		wish("before anyone looks")
		read("before anyone looks")
		channel := lease.Revoked()
		wish("while somebody looks")
		read("while somebody looks")
		for range 3 * revokedMax {
			wish("again")
		}
		if n := len(channel); n != revokedMax {
			t.Errorf("%d wishes wait; the rest is dropped", n)
		}
		if channel != lease.Revoked() || lease.Err() != nil {
			t.Error("the channel is another, or a wish has ended the lease")
		}
	})
}
