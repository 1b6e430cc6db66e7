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
		unlock(t, second) // also ends the two re-entries within second
		want(2)
		wantIs(t, third.Unlock(t.Context()), ErrReleased)
		want(2)
		unlock(t, beside)
		want(1)
		unlock(t, outer)
		want(0)
	})
}

// Each of many re-entries, and the end of each, costs as much as the first: writers, readers, and
// both in turn, each within the lease before, unlocked from either end. (If the cost grew with the
// number of open leases, a row would take minutes.)
func TestManyReentriesOfEachKind(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	sampled.Unraced(t)
	most := sampled.Count(20_000, 100_000)
	read := (*Mesh).RLock
	write := (*Mesh).Lock
	for _, kind := range []struct {
		name  string
		enter [2]func(*Mesh, context.Context, string, ...Option) (*Lease, error) // in turn
		// the leases held once only the outermost re-entry has been unlocked
		alive int
	}{
		{"writers", [...]func(*Mesh, context.Context, string, ...Option) (*Lease, error){write, write}, 0},
		{"readers", [...]func(*Mesh, context.Context, string, ...Option) (*Lease, error){read, read}, most - 1},
		{"readers and writers", [...]func(*Mesh, context.Context, string, ...Option) (*Lease, error){read, write}, most - 2},
	} {
		for _, order := range []string{"from the inside", "from the outside", "from the outside, the outermost last"} {
			t.Run(kind.name+" "+order, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *wire) {
					a, b, _ := w.three()
					outermost := must[*Lease](t)(a.Lock(t.Context(), "k"))
					all := []*Lease{outermost}
					for i := range most {
						enter := kind.enter[i%2]
						all = append(all, must[*Lease](t)(enter(a, all[i].Context(), "k")))
					}
					if n := outermost.Depth(); n != most+1 {
						t.Fatalf("the depth is %d", n)
					}
					end := func(l *Lease) {
						if l.Err() == nil { // else ended with an outer lease
							unlock(t, l)
						}
					}
					switch order {
					case "from the inside":
						for i := most; i > 0; i-- {
							end(all[i])
							if n := outermost.Depth(); n != i {
								t.Fatalf("the depth is %d, want %d", n, i)
							}
						}
						end(outermost)
					case "from the outside":
						for _, l := range all {
							end(l)
						}
					default:
						end(all[1])
						if n := outermost.Depth(); n != kind.alive+1 {
							t.Errorf("after the first end the depth is %d, want %d", n, kind.alive+1)
						}
						for _, l := range all[2:] {
							end(l)
						}
						if n := outermost.Depth(); n != 1 {
							t.Errorf("of the re-entries all have ended, and the depth is %d", n)
						}
						end(outermost)
					}
					if n := outermost.Depth(); n != 0 {
						t.Errorf("all have ended, and the depth is %d", n)
					}
					unlock(t, must[*Lease](t)(b.TryLock(t.Context(), "k")))
				})
			})
		}
	}
}

// A nested writer ends with the lease around the writer, and so do the writers within, after any
// earlier ends. The depth counts the leases still held.
func TestWritersEndWithTheLeaseAroundThem(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		outermost := must[*Lease](t)(a.Lock(t.Context(), "k"))
		within := must[*Lease](t)(a.Lock(outermost.Context(), "k"))
		var beside []*Lease // 0 to 4, all within the same lease
		for range 5 {
			beside = append(beside, must[*Lease](t)(a.Lock(within.Context(), "k")))
		}
		reader := must[*Lease](t)(a.RLock(beside[3].Context(), "k"))
		byReader := must[*Lease](t)(a.Lock(reader.Context(), "k"))
		for i, row := range []struct {
			end   *Lease
			depth int // afterwards
		}{
			{beside[2], 8}, {beside[4], 7}, {beside[0], 6}, // from the middle, and from either end
			{within, 3}, // ends 1 and 3 too; the outermost, the reader and its writer remain
			{reader, 1},
		} {
			unlock(t, row.end)
			if n := outermost.Depth(); n != row.depth {
				t.Errorf("after end %d the depth is %d, want %d", i, n, row.depth)
			}
		}
		for _, l := range append(beside, byReader) {
			wantIs(t, l.Err(), ErrReleased)
		}
		if err := outermost.Err(); err != nil {
			t.Error(err)
		}
	})
}

// Each of many re-entries costs as much as the first.
func TestAHundredThousandReentries(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
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
		if last.Err() != nil || last.Token() != all[0].Token() || last.Deadline().IsZero() || last.Mode() != ModeExclusive {
			t.Error(last.Err())
		}
		for i := most; i > most/2; i-- {
			unlock(t, all[i])
		}
		if n := all[0].Depth(); n != most/2+1 {
			t.Errorf("the depth is %d", n)
		}
		unlock(t, all[0]) // also ends the remaining leases
		for _, l := range all[1:] {
			if l.Err() == nil {
				t.Fatal("one is still held")
			}
		}
		must[*Lease](t)(b.TryLock(t.Context(), "k"))
	})
}

// The deadline of a lease of a set length is the time of the lease's end.
func TestTheDeadlineOfALeaseOfASetLength(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for _, length := range []time.Duration{time.Second, 10 * time.Second, time.Hour} {
		t.Run(length.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, _, _ := w.three()
				l := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(length), WithoutRenewal()))
				granted := time.Now()
				for range 3 {
					left := l.Deadline().Sub(granted)
					if left > length || left < length-length*3/100 { // less the error of clocks
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

// panicky is a log handler that panics on most lines.
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

// A log handler that panics costs lines, which are counted, but neither the process nor a lease.
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
