package lockmesh

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

func TestDepthCountsTheReentriesThatAreOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		outer := must[*Lease](t)(a.Lock(t.Context(), "k"))
		all := []*Lease{outer}
		want := func(n int) {
			t.Helper()
			for i, l := range all {
				if got := l.Depth(); got != n {
					t.Errorf("the depth is %d by lease %d, want %d", got, i, n)
				}
			}
		}
		want(1)
		enter := func(from *Lease) *Lease {
			l := must[*Lease](t)(a.Lock(from.Context(), "k"))
			all = append(all, l)
			return l
		}
		first := enter(outer)
		want(2)
		unlock(t, first)
		want(1)
		second := enter(outer)
		beside := enter(outer)
		third := enter(second)
		enter(third)
		want(5)
		unlock(t, second) // and with it the two within it
		want(2)
		wantIs(t, third.Unlock(t.Context()), ErrReleased)
		want(2)
		unlock(t, beside)
		want(1)
		unlock(t, outer)
		want(0)
	})
}

// Each of many re-entries costs as much as the first.
func TestAHundredThousandReentries(t *testing.T) {
	sampled.Unraced(t)
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		const most = 100_000
		all := []*Lease{must[*Lease](t)(a.Lock(t.Context(), "k"))}
		for i := range most {
			all = append(all, must[*Lease](t)(a.Lock(all[i].Context(), "k")))
		}
		last := all[most]
		if n := last.Depth(); n != most+1 {
			t.Errorf("the depth is %d", n)
		}
		if last.Err() != nil || last.Token() != all[0].Token() || last.Deadline().IsZero() || last.Mode() != Exclusive {
			t.Error(last.Err())
		}
		for i := most; i > most/2; i-- {
			unlock(t, all[i])
		}
		if n := all[0].Depth(); n != most/2+1 {
			t.Errorf("the depth is %d", n)
		}
		unlock(t, all[0]) // with all that are left
		for _, l := range all[1:] {
			if l.Err() == nil {
				t.Fatal("one is still held")
			}
		}
		must[*Lease](t)(b.TryLock(t.Context(), "k"))
	})
}

// The deadline of a lease that ends by itself is its end.
func TestTheDeadlineOfALeaseOfASetLength(t *testing.T) {
	for _, length := range []time.Duration{time.Second, 10 * time.Second, time.Hour} {
		t.Run(length.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, _, _ := w.three()
				l := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(length), WithoutRenewal()))
				granted := time.Now()
				for range 3 {
					left := l.Deadline().Sub(granted)
					if left > length || left < length-length*3/100 { // less what clocks may err by
						t.Errorf("after %v the deadline is %v after the grant, want %v", time.Since(granted), left, length)
					}
					if shown := a.Status().Held[0].Deadline; !shown.Equal(l.Deadline()) {
						t.Errorf("Status says %v, the lease %v", shown, l.Deadline())
					}
					time.Sleep(length / 4)
				}
				end := l.Deadline()
				<-l.Done()
				if off := time.Since(end).Abs(); off > length/50 {
					t.Errorf("it ended %v from its deadline", off)
				}
			})
		})
	}
}

// panicky is a log handler with a mistake.
type panicky struct {
	slog.Handler
	every int
	n     *int
}

func (h panicky) Handle(ctx context.Context, r slog.Record) error {
	if *h.n++; *h.n%h.every != 0 {
		panic("a handler's mistake")
	}
	return h.Handler.Handle(ctx, r)
}

func (h panicky) WithAttrs([]slog.Attr) slog.Handler { panic("another") }

// A log handler that panics costs lines, which are counted, and neither the process nor a lease.
func TestALogHandlerThatPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var out bytes.Buffer
		n := 0
		h := panicky{slog.NewTextHandler(&out, nil), 3, &n}
		m := w.join("a", []string{"a"}, func(cfg *Config) { cfg.Logger = slog.New(h) })
		if err := m.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := must[*Lease](t)(m.Lock(t.Context(), "k"))
		log := m.eng.Log().With("k", "v")
		for i := range 30 {
			log.Info(fmt.Sprint("line ", i))
		}
		if l.Err() != nil {
			t.Error(l.Err())
		}
		unlock(t, l)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "handler_panics_before=2"); got < 10 {
			t.Errorf("%d lines tell of those that were lost:\n%s", got, out.String())
		}
	})
}
