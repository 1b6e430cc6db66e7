package lockmesh

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// must returns a function that takes the results of a call, and ends the test on an error.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// wantIs fails unless the error is each of the targets.
func wantIs(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %v is not %v", err, target)
		}
	}
}

// wantNot fails if the error is any of the targets.
func wantNot(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if errors.Is(err, target) {
			t.Errorf("error %v is %v", err, target)
		}
	}
}

func TestAWaiterGetsTheKeyWhenItIsUnlocked(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		first := must[*Lease](t)(a.Lock(t.Context(), "k"))
		got := make(chan *Lease)
		go func() { got <- must[*Lease](t)(b.Lock(t.Context(), "k")) }()
		time.Sleep(time.Minute) // longer than many TTLs: the node renews the lease
		synctest.Wait()
		if len(b.Status().Waiting) != 1 || first.Err() != nil {
			t.Fatalf("b should wait while a holds: %v, %v", b.Status(), first.Err())
		}
		if err := first.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := <-got
		if second.Token() <= first.Token() {
			t.Errorf("token %d follows %d", second.Token(), first.Token())
		}
		if second.Key() != "k" || time.Until(second.Deadline()) <= 0 || second.Err() != nil {
			t.Errorf("%q until %v: %v", second.Key(), second.Deadline(), second.Err())
		}
		wantIs(t, first.Err(), ErrReleased)
	})
}

func TestOfManyTryLocksExactlyOneWins(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		for range 20 {
			var work sync.WaitGroup
			var mu sync.Mutex
			var won []*Lease
			for i := range 30 {
				work.Go(func() {
					lease, err := []*Mesh{a, b, c}[i%3].TryLock(t.Context(), "k")
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						won = append(won, lease)
					} else {
						wantIs(t, err, ErrHeld)
					}
				})
			}
			work.Wait()
			if len(won) != 1 {
				t.Fatalf("%d of 30 TryLocks won", len(won))
			}
			if err := won[0].Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestAClosedHoldersKeyIsFreeAtItsDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		first := must[*Lease](t)(a.Lock(t.Context(), "k"))
		deadline := first.Deadline()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		wantIs(t, first.Err(), ErrLost, ErrClosed)
		second := must[*Lease](t)(b.Lock(t.Context(), "k"))
		if late := time.Since(deadline); late < 0 || late > time.Second {
			t.Errorf("the next holder came %v after the deadline", late)
		}
		if second.Token() <= first.Token() {
			t.Errorf("token %d follows %d", second.Token(), first.Token())
		}
	})
}

func TestLockSaysWhatKeptItWaiting(t *testing.T) {
	reason := errors.New("the operator is bored")
	for _, row := range []struct {
		name    string
		prepare func(t *testing.T, w *wire) *Mesh
		ctx     func(context.Context) (context.Context, context.CancelFunc)
		is      []error
		isNot   []error
		says    string
	}{
		{
			"somebody holds the key",
			func(t *testing.T, w *wire) *Mesh {
				a, b, _ := w.three()
				must[*Lease](t)(a.Lock(t.Context(), "k"))
				return b
			},
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Second)
			},
			[]error{context.DeadlineExceeded, ErrHeld}, []error{ErrNoQuorum}, "3 of 3 voters count",
		},
		{
			"too few voters are up",
			func(t *testing.T, w *wire) *Mesh {
				a, b, c := w.three()
				for _, m := range []*Mesh{b, c} {
					if err := m.Close(); err != nil {
						t.Fatal(err)
					}
				}
				return a
			},
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Second)
			},
			[]error{context.DeadlineExceeded, ErrNoQuorum}, []error{ErrHeld}, "1 of 3 voters counts: b unreachable (connection refused), c unreachable (connection refused)",
		},
		{
			"voters are quiet",
			func(t *testing.T, w *wire) *Mesh {
				m := w.join("a", []string{"a"}, nil)
				time.Sleep(time.Second)
				return m
			},
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Second)
			},
			[]error{context.DeadlineExceeded, ErrNoQuorum}, []error{ErrHeld}, "0 of 1 voters count: a quiet for",
		},
		{
			"the context has a cause",
			func(t *testing.T, w *wire) *Mesh {
				a, b, _ := w.three()
				must[*Lease](t)(a.Lock(t.Context(), "k"))
				return b
			},
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(ctx, time.Second, reason)
			},
			[]error{context.DeadlineExceeded, reason, ErrHeld}, []error{ErrNoQuorum}, "bored",
		},
		{
			"the context had ended before",
			func(t *testing.T, w *wire) *Mesh { a, _, _ := w.three(); return a },
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return ctx, cancel
			},
			[]error{context.Canceled, ErrNoQuorum}, []error{ErrHeld}, "before any voter was asked",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				m := row.prepare(t, w)
				ctx, cancel := row.ctx(t.Context())
				defer cancel()
				lease, err := m.Lock(ctx, "k")
				if lease != nil || err == nil {
					t.Fatalf("lease %v, error %v", lease, err)
				}
				wantIs(t, err, row.is...)
				wantNot(t, err, row.isNot...)
				if !strings.Contains(err.Error(), row.says) {
					t.Errorf("%q doesn't say %q", err, row.says)
				}
				var e *Error
				if !errors.As(err, &e) || e.Op != "lock" || e.Key != "k" {
					t.Errorf("%#v has no operation and key", err)
				}
				time.Sleep(DefaultMaxTTL + time.Second) // unconfirmed releases are given up by then
				if s := m.Status(); len(s.Waiting) != 0 || len(s.Held) != 0 {
					t.Errorf("something is left: %v", s)
				}
				if n := requests(m); n != 0 {
					t.Errorf("%d requests are left", n)
				}
			})
		})
	}
}

// requests returns the number of requests that the node has under way.
func requests(m *Mesh) int {
	return m.eng.Open().Requests
}

func TestTryLockWithoutAMajorityIsNoQuorum(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		m := w.join("a", []string{"a", "b", "c"}, nil)
		time.Sleep(11 * time.Second)
		began := time.Now()
		_, err := m.TryLock(t.Context(), "k")
		wantIs(t, err, ErrNoQuorum)
		wantNot(t, err, ErrHeld)
		if took := time.Since(began); took > DefaultMaxTTL {
			t.Errorf("it took %v to know", took)
		}
	})
}

// Whether the context ends before, at or after the grant, either the caller has the lease or the
// key is free.
func TestAGrantThatComesTooLateIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		granted, given := 0, 0
		for i := range 400 {
			ctx, cancel := context.WithCancel(t.Context())
			// Goroutines race in a bubble as ever; another number of yields shifts the order.
			go func() {
				for range i % 40 {
					runtime.Gosched()
				}
				cancel()
			}()
			if i%2 == 0 {
				runtime.Gosched() // else the call always returns before the new goroutine runs
			}
			lease, err := a.Lock(ctx, "k")
			if err == nil {
				granted++
				if err := lease.Unlock(t.Context()); err != nil {
					t.Fatal(err)
				}
			} else {
				given++
				wantIs(t, err, context.Canceled)
				wantNot(t, err, ErrHeld) // no other caller has the key
			}
			cancel()
			next, err := b.Lock(testwait.Within(t, time.Second), "k")
			if err != nil {
				t.Fatalf("round %d: a lease was left behind: %v", i, err)
			}
			if err := next.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%d granted, %d cancelled", granted, given)
		if granted == 0 || given == 0 {
			t.Errorf("%d granted, %d cancelled: the race wasn't met", granted, given)
		}
	})
}

func TestBadKeysAreRefusedBeforeAnythingIsSent(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		m := w.join("a", []string{"a"}, nil)
		for _, row := range []struct{ name, key string }{
			{"empty", ""},
			{"513 bytes", strings.Repeat("k", 513)},
			{"not UTF-8", "k\xff"},
			{"a NUL", "a\x00b"},
			{"a line feed", "a\nb"},
			{"a C1 control", "a\u0085b"},
		} {
			_, lock := m.Lock(t.Context(), row.key)
			_, try := m.TryLock(t.Context(), row.key)
			do := m.Do(t.Context(), row.key, func(context.Context, *Lease) error { t.Errorf("%s: ran", row.name); return nil })
			for _, err := range []error{lock, try, do} {
				if !errors.Is(err, ErrKey) {
					t.Errorf("%s: %v", row.name, err)
				}
			}
		}
		time.Sleep(11 * time.Second)
		for _, key := range []string{"k", strings.Repeat("k", 512), "ключ/鍵 with spaces"} {
			if _, err := m.TryLock(t.Context(), key); err != nil {
				t.Errorf("%q: %v", key, err)
			}
		}
	})
}
