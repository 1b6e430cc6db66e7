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

func TestUnlock(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, row := range []struct {
		name  string
		do    func(t *testing.T, w *wire, m *Mesh, l *Lease) error
		is    []error // none: no error
		isNot []error
		err   error // the lease's Err in the end
	}{
		{
			"is confirmed by a majority",
			func(t *testing.T, _ *wire, _ *Mesh, l *Lease) error { return l.Unlock(t.Context()) },
			nil, nil, ErrReleased,
		},
		{
			"twice says so",
			func(t *testing.T, _ *wire, _ *Mesh, l *Lease) error {
				if err := l.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
				return l.Unlock(t.Context())
			},
			[]error{ErrReleased}, []error{ErrLost, ErrClosed}, ErrReleased,
		},
		{
			"with a context that has ended says that nobody has confirmed",
			func(_ *testing.T, _ *wire, _ *Mesh, l *Lease) error { return l.Unlock(cancelled) },
			[]error{context.Canceled}, []error{ErrLost, ErrReleased, ErrClosed}, ErrReleased,
		},
		{
			"after the loss says so",
			func(t *testing.T, w *wire, _ *Mesh, l *Lease) error {
				w.stall("a", true)
				<-l.Done()
				return l.Unlock(t.Context())
			},
			[]error{ErrLost}, []error{ErrReleased, ErrClosed}, ErrLost,
		},
		{
			"without a majority gives up within a TTL",
			func(t *testing.T, w *wire, _ *Mesh, l *Lease) error {
				w.stall("a", true)
				began := time.Now()
				err := l.Unlock(t.Context())
				if took := time.Since(began); took > DefaultMaxTTL {
					t.Errorf("it took %v", took)
				}
				if !strings.Contains(err.Error(), "1 of 3 voters confirmed") {
					t.Errorf("%q has no numbers", err)
				}
				return err
			},
			[]error{ErrNoQuorum}, []error{ErrLost, ErrReleased, ErrClosed}, ErrReleased,
		},
		{
			"after Close says so",
			func(t *testing.T, _ *wire, m *Mesh, l *Lease) error {
				if err := m.Close(); err != nil {
					t.Error(err)
				}
				return l.Unlock(t.Context())
			},
			[]error{ErrClosed}, []error{ErrReleased}, ErrLost,
		},
		{
			"ends when the mesh is closed meanwhile",
			func(t *testing.T, w *wire, m *Mesh, l *Lease) error {
				w.stall("a", true)
				time.AfterFunc(time.Second, func() { _ = m.Close() })
				return l.Unlock(t.Context())
			},
			[]error{ErrClosed}, []error{ErrLost}, ErrReleased,
		},
		{
			"after Leave says so",
			func(t *testing.T, _ *wire, m *Mesh, l *Lease) error {
				if err := m.Leave(t.Context()); err != nil {
					t.Error(err)
				}
				return l.Unlock(t.Context())
			},
			[]error{ErrReleased}, []error{ErrLost}, ErrReleased,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			// A message takes a millisecond. On a network without latency the voters' confirmations
			// would arrive at the instant at which Unlock checks its context, and the scheduler
			// would decide the order.
			inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				lease := must[*Lease](t)(a.Lock(t.Context(), "k"))
				err := row.do(t, w, a, lease)
				if len(row.is) == 0 && err != nil {
					t.Error(err)
				}
				wantIs(t, err, row.is...)
				wantNot(t, err, row.isNot...)
				wantIs(t, lease.Err(), row.err)
				select {
				case <-lease.Done():
				default:
					t.Error("Done is open")
				}
				began := time.Now()
				if next := must[*Lease](t)(b.Lock(t.Context(), "k")); next.Token() <= lease.Token() {
					t.Errorf("token %d follows %d", next.Token(), lease.Token())
				}
				if wait := time.Since(began); errors.Is(err, context.Canceled) && wait > time.Second {
					t.Errorf("the key was free only after %v: nothing was sent", wait)
				}
			})
		})
	}
}

func TestUnlockFromManyGoroutinesReleasesOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		for range 50 {
			lease := must[*Lease](t)(a.Lock(t.Context(), "k"))
			var work sync.WaitGroup
			errs := make([]error, 4)
			for i := range errs {
				work.Go(func() { errs[i] = lease.Unlock(t.Context()) })
			}
			work.Wait()
			good := 0
			for _, err := range errs {
				if err == nil {
					good++
				} else {
					wantIs(t, err, ErrReleased)
				}
			}
			if good != 1 {
				t.Fatalf("%d of 4 released it", good)
			}
		}
	})
}

func TestALeaseIsLostBeforeItsDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		lease := must[*Lease](t)(a.Lock(t.Context(), "k"))
		ctx := lease.Context()
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		time.Sleep(time.Minute)
		deadline := lease.Deadline()
		w.stall("a", true)
		<-child.Done()
		if late := time.Since(deadline); late > time.Millisecond {
			t.Errorf("Done closed %v after the deadline", late)
		}
		wantIs(t, lease.Err(), ErrLost)
		wantIs(t, context.Cause(child), ErrLost)
		w.stall("a", false)
		time.Sleep(time.Minute)
		wantIs(t, lease.Err(), ErrLost)
		synctest.Wait()
		if held := a.Status().Held; len(held) != 0 {
			t.Errorf("still held: %v", held)
		}
	})
}

// As after a SIGSTOP, time has passed, and no timer has fired yet.
func TestTheClockIsReadBeforeAnyTimerFires(t *testing.T) {
	for _, row := range []struct {
		name string
		ask  func(*Lease, context.Context) error
		want error
	}{
		{"by the lease's Err", func(l *Lease, _ context.Context) error { return l.Err() }, ErrLost},
		{"by the context's Err", func(_ *Lease, c context.Context) error { return c.Err() }, context.Canceled},
		{"by the context's cause", func(_ *Lease, c context.Context) error { return context.Cause(c) }, ErrLost},
		{"by Unlock", func(l *Lease, c context.Context) error { return l.Unlock(c) }, ErrLost},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				lease := must[*Lease](t)(a.Lock(t.Context(), "k"))
				ctx := lease.Context()
				synctest.Wait()
				w.clocks[a].Set(time.Hour)
				wantIs(t, row.ask(lease, ctx), row.want)
				select {
				case <-lease.Done():
				default:
					t.Error("Done is open though the loss was told")
				}
				select {
				case <-ctx.Done():
				default:
					t.Error("the context's Done is open though the loss was told")
				}
				w.clocks[a].Set(0) // as after a late renewal
				wantIs(t, lease.Err(), ErrLost)
				// Only the holder's clock has ended the lease, so the node releases the key at
				// once.
				if _, err := b.Lock(testwait.Within(t, time.Second), "k"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestDosContextReadsTheClockToo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a := w.join("a", []string{"a"}, nil)
		err := a.Do(t.Context(), "k", func(ctx context.Context, _ *Lease) error {
			if ctx.Err() != nil {
				t.Error(ctx.Err())
			}
			w.clocks[a].Set(time.Hour)
			if cause := context.Cause(ctx); !errors.Is(cause, ErrLost) {
				t.Errorf("the cause is %v", cause)
			}
			select {
			case <-ctx.Done():
			default:
				t.Error("Done is open though the loss was told")
			}
			return ctx.Err()
		})
		wantIs(t, err, ErrLost, context.Canceled)
	})
}

func TestDo(t *testing.T) {
	mine := errors.New("mine")
	for _, row := range []struct {
		name string
		f    func(t *testing.T, w *wire, ctx context.Context, l *Lease) error
		is   []error // none: no error
		not  []error
	}{
		{"returns nil", func(*testing.T, *wire, context.Context, *Lease) error { return nil }, nil, nil},
		{"returns the function's error", func(*testing.T, *wire, context.Context, *Lease) error { return mine }, []error{mine}, []error{ErrLost}},
		{
			"tells of a loss though the function returns nil",
			func(t *testing.T, w *wire, ctx context.Context, _ *Lease) error {
				w.stall("a", true)
				<-ctx.Done()
				wantIs(t, context.Cause(ctx), ErrLost)
				w.stall("a", false)
				return nil
			},
			[]error{ErrLost}, nil,
		},
		{
			"joins both errors",
			func(_ *testing.T, w *wire, ctx context.Context, _ *Lease) error {
				w.stall("a", true)
				<-ctx.Done()
				w.stall("a", false)
				return mine
			},
			[]error{ErrLost, mine}, nil,
		},
		{
			"lets the function unlock",
			func(t *testing.T, _ *wire, _ context.Context, l *Lease) error { return l.Unlock(t.Context()) },
			nil, nil,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				err := a.Do(t.Context(), "k", func(ctx context.Context, l *Lease) error { return row.f(t, w, ctx, l) })
				if len(row.is) == 0 && err != nil {
					t.Error(err)
				}
				wantIs(t, err, row.is...)
				wantNot(t, err, row.not...)
				if _, err := b.Lock(testwait.Within(t, time.Minute), "k"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestDoHoldsUntilTheFunctionHasReturned(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		type tag struct{}
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), tag{}, "value"))
		quit := errors.New("quit")
		err := a.Do(ctx, "k", func(ctx context.Context, l *Lease) error {
			if ctx.Value(tag{}) != "value" || l.Context().Value(tag{}) != "value" {
				t.Error("the caller's values are gone")
			}
			cancel(quit)
			<-ctx.Done()
			wantIs(t, context.Cause(ctx), quit)
			time.Sleep(time.Minute) // the function takes time to stop
			if _, err := b.TryLock(t.Context(), "k"); !errors.Is(err, ErrHeld) {
				t.Errorf("released before the function has returned: %v", err)
			}
			return l.Err()
		})
		if err != nil {
			t.Error(err)
		}
		if _, err := b.TryLock(t.Context(), "k"); err != nil {
			t.Error(err)
		}
	})
}

func TestDoReleasesHoweverTheFunctionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		for _, end := range []func(){func() { panic("mine") }, runtime.Goexit} {
			done := make(chan any)
			go func() {
				defer func() { done <- recover() }()
				_ = a.Do(t.Context(), "k", func(context.Context, *Lease) error { end(); return nil })
			}()
			<-done
			lease, err := b.TryLock(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			_ = lease.Unlock(t.Context())
		}
	})
}
