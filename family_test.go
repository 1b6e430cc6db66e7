package lockmesh

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// short starts three nodes with a TTL shorter than MaxTTL, and waits until the nodes are ready.
func (w *wire) short() (a, b, c *Mesh) {
	w.t.Helper()
	voters := []string{"a", "b", "c"}
	ttl := func(cfg *Config) { cfg.TTL = 2 * time.Second }
	a, b, c = w.join("a", voters, ttl), w.join("b", voters, ttl), w.join("c", voters, ttl)
	for _, m := range []*Mesh{a, b, c} {
		if err := m.Ready(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	return a, b, c
}

// outcome is the result of a call.
type outcome struct {
	lease *Lease
	err   error
}

// later starts a call, and returns a channel for the outcome.
func later(f func() (*Lease, error)) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		l, err := f()
		c <- outcome{l, err}
	}()
	return c
}

func stillWaits(t *testing.T, c <-chan outcome) {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-c:
		t.Fatalf("it didn't wait: %v, %v", r.lease, r.err)
	default:
	}
}

func unlock(t *testing.T, l *Lease) {
	t.Helper()
	if err := l.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestReadersShareAndExcludeAWriterInOrderOfArrival(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		r1 := must[*Lease](t)(a.RLock(t.Context(), "k"))
		r2 := must[*Lease](t)(b.RLock(t.Context(), "k"))
		if r1.Mode() != ModeShared || r1.Token() == r2.Token() {
			t.Fatalf("mode %v, tokens %d and %d", r1.Mode(), r1.Token(), r2.Token())
		}
		_, err := c.TryLock(t.Context(), "k")
		wantIs(t, err, ErrHeld)
		writer := later(func() (*Lease, error) { return c.Lock(t.Context(), "k") })
		stillWaits(t, writer)
		time.Sleep(time.Second) // further apart than stamps may err
		_, err = a.TryRLock(t.Context(), "k")
		wantIs(t, err, ErrHeld) // the reader may not pass the writer
		r3 := later(func() (*Lease, error) { return a.RLock(t.Context(), "k") })
		unlock(t, r1)
		stillWaits(t, writer)
		unlock(t, r2)
		wl := <-writer
		if wl.err != nil {
			t.Fatal(wl.err)
		}
		if wl.lease.Token() <= max(r1.Token(), r2.Token()) {
			t.Errorf("the writer's token is %d after %d and %d", wl.lease.Token(), r1.Token(), r2.Token())
		}
		stillWaits(t, r3)
		unlock(t, wl.lease)
		if r := <-r3; r.err != nil || r.lease.Token() <= wl.lease.Token() {
			t.Fatalf("the reader behind the writer: %v, %v", r.lease, r.err)
		}
	})
}

func TestASemaphoreHasAllItsPermitsAndNoMore(t *testing.T) {
	for _, permits := range []int{1, 2, 3, 16} {
		t.Run(fmt.Sprint(permits), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, c := w.three()
				nodes := []*Mesh{a, b, c}
				slots := make(map[int]bool)
				var leases []*Lease
				for i := range permits {
					l := must[*Lease](t)(nodes[i%3].Semaphore("s", permits).Acquire(t.Context()))
					if slots[l.Slot()] || l.Slot() < 1 || l.Slot() > permits {
						t.Fatalf("slot %d again", l.Slot())
					}
					slots[l.Slot()] = true
					leases = append(leases, l)
				}
				_, err := a.Semaphore("s", permits).TryAcquire(t.Context())
				wantIs(t, err, ErrHeld)
				next := later(func() (*Lease, error) { return b.Semaphore("s", permits).Acquire(t.Context()) })
				stillWaits(t, next)
				_, err = c.Semaphore("s", permits+1).Acquire(t.Context())
				wantIs(t, err, ErrPermits)
				if text := fmt.Sprint(err); err != nil && !contains(text, fmt.Sprint(permits), fmt.Sprint(permits+1)) {
					t.Errorf("the error doesn't name both numbers: %v", err)
				}
				unlock(t, leases[0])
				if r := <-next; r.err != nil || r.lease.Slot() != leases[0].Slot() {
					t.Fatalf("the freed permit: %v, %v", r.lease, r.err)
				}
			})
		})
	}
}

func TestManyTakePermitsAtOnceAndAllAreServed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		nodes := []*Mesh{a, b, c}
		const permits, workers = 3, 30
		var held, most, done atomic.Int32
		for i := range workers {
			go func() {
				for range 5 {
					l, err := nodes[i%3].Semaphore("s", permits).Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					n := held.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					time.Sleep(10 * time.Millisecond)
					held.Add(-1)
					if err := l.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
				done.Add(1)
			}()
		}
		time.Sleep(time.Minute)
		if most.Load() != permits || done.Load() != workers {
			t.Fatalf("%d held at once, %d of %d workers are done", most.Load(), done.Load(), workers)
		}
	})
}

func TestALeaseOfASetLengthEndsByItself(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.short()
		start := time.Now()
		l := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(5*time.Second), WithoutRenewal()))
		if left := time.Until(l.Deadline()); left < 4*time.Second || left > 5*time.Second {
			t.Fatalf("it ends in %v", left)
		}
		must[*Lease](t)(b.Lock(t.Context(), "k"))
		if took := time.Since(start); took < 4800*time.Millisecond || took > 5200*time.Millisecond {
			t.Errorf("the next one had it after %v", took)
		}
		wantIs(t, l.Err(), ErrLost)
	})
}

func TestALeaseOfASetLengthOutlivesItsNode(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.short()
		start := time.Now()
		must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(8*time.Second), WithoutRenewal()))
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		must[*Lease](t)(b.Lock(t.Context(), "k"))
		if took := time.Since(start); took < 7900*time.Millisecond || took > 8300*time.Millisecond {
			t.Errorf("the next one had it after %v", took)
		}
	})
}

func TestATTLOfItsOwnIsRenewedAndEndsSoonerWithItsNode(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three() // with a TTL of 10 s
		l := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(time.Second)))
		time.Sleep(time.Minute)
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		must[*Lease](t)(b.Lock(t.Context(), "k"))
		if took := time.Since(start); took > 1100*time.Millisecond || took < 700*time.Millisecond {
			t.Errorf("the next one had it after %v", took)
		}
	})
}

func TestALengthBeyondMaxTTLIsKeptUpByItsNode(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		start := time.Now()
		l := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(time.Minute), WithoutRenewal()))
		must[*Lease](t)(b.Lock(t.Context(), "k"))
		if took := time.Since(start); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("the next one had it after %v", took)
		}
		wantIs(t, l.Err(), ErrLost)
		_, err := a.Lock(t.Context(), "k2", WithTTL(time.Minute))
		wantIs(t, err, ErrOption)
	})
}

func TestAMinimumHoldKeepsTheKeyFromOthers(t *testing.T) {
	for _, hold := range []time.Duration{3 * time.Second, time.Minute} {
		t.Run(hold.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, c := w.three()
				start := time.Now()
				l := must[*Lease](t)(a.Lock(t.Context(), "k", WithMinHold(hold)))
				unlock(t, l)
				_, err := c.TryLock(t.Context(), "k")
				wantIs(t, err, ErrHeld)
				must[*Lease](t)(b.Lock(t.Context(), "k"))
				if took := time.Since(start); took < hold || took > hold+hold/50+100*time.Millisecond {
					t.Errorf("the next one had it after %v", took)
				}
			})
		})
	}
}

func TestALockDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.short()
		_, err := a.Lock(t.Context(), "k", WithDelay(9*time.Second))
		wantIs(t, err, ErrOption)
		l := must[*Lease](t)(a.Lock(t.Context(), "k", WithDelay(5*time.Second)))
		unlock(t, l)
		l = must[*Lease](t)(b.TryLock(t.Context(), "k")) // at once, after a clean release
		unlock(t, l)
		l = must[*Lease](t)(a.Lock(t.Context(), "k", WithDelay(5*time.Second)))
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		end := l.Deadline()
		must[*Lease](t)(b.Lock(t.Context(), "k"))
		if took := time.Since(end); took < 5*time.Second || took > 5300*time.Millisecond {
			t.Errorf("the next one had it %v after the lease's end", took)
		}
	})
}

func TestWithWaitGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		l := must[*Lease](t)(a.Lock(t.Context(), "k"))
		start := time.Now()
		_, err := b.Lock(t.Context(), "k", WithWait(3*time.Second))
		wantIs(t, err, ErrHeld, context.DeadlineExceeded)
		wantNot(t, err, context.Canceled) // callers take Canceled for a request to stop
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("after %v", took)
		}
		_, err = b.Lock(t.Context(), "k", WithWait(0))
		wantIs(t, err, ErrHeld)
		synctest.Wait()
		info := must[Info](t)(b.Inspect(t.Context(), "k"))
		if len(info.Waiters) != 0 || len(info.Holders) != 1 {
			t.Errorf("left behind: %+v", info)
		}
		unlock(t, l)
		unlock(t, must[*Lease](t)(b.TryLock(t.Context(), "k")))
	})
}

func TestInspectShowsHoldersAndWaitersInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		if info := must[Info](t)(a.Inspect(t.Context(), "k")); len(info.Holders)+len(info.Waiters) != 0 {
			t.Fatalf("%+v", info)
		}
		l := must[*Lease](t)(a.Lock(t.Context(), "k", WithValue([]byte("here"))))
		time.Sleep(time.Second)
		second := later(func() (*Lease, error) { return b.Lock(t.Context(), "k", WithValue([]byte("me, too"))) })
		stillWaits(t, second)
		time.Sleep(3 * time.Second)
		third := later(func() (*Lease, error) { return c.RLock(t.Context(), "k") })
		stillWaits(t, third)
		info := must[Info](t)(c.Inspect(t.Context(), "k"))
		if len(info.Holders) != 1 || len(info.Waiters) != 2 {
			t.Fatalf("%+v", info)
		}
		h := info.Holders[0]
		if h.Node != "a" || h.Token != l.Token() || h.Mode != ModeExclusive || string(h.Value) != "here" || time.Since(h.Since).Round(time.Second) != 4*time.Second ||
			h.Left <= 0 || h.Left > 10*time.Second {
			t.Errorf("holder %+v", h)
		}
		if info.Waiters[0].Node != "b" || info.Waiters[1].Node != "c" || info.Waiters[1].Mode != ModeShared || string(info.Waiters[0].Value) != "me, too" {
			t.Errorf("waiters %+v", info.Waiters)
		}
		if err := l.SetValue(t.Context(), []byte("there")); err != nil {
			t.Fatal(err)
		}
		info = must[Info](t)(b.Inspect(t.Context(), "k"))
		if h := info.Holders[0]; string(h.Value) != "there" || h.Version != 2 {
			t.Errorf("holder %+v", h)
		}
		wantIs(t, l.SetValue(t.Context(), make([]byte, MaxValueLen+1)), ErrOption)
		unlock(t, l)
		wantIs(t, l.SetValue(t.Context(), nil), ErrReleased)
		if r := <-second; r.err != nil {
			t.Fatal(r.err)
		}
	})
}

func TestAHolderIsAskedToGiveBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		l := must[*Lease](t)(a.Lock(t.Context(), "k"))
		if err := b.Revoke(t.Context(), "k", WithReason("a deploy")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if r := <-l.Revoked(); r.Node != "b" || r.Reason != "a deploy" {
			t.Errorf("%+v", r)
		}
		waiter := later(func() (*Lease, error) { return c.Lock(t.Context(), "k", WithRevoke(), WithReason("please")) })
		stillWaits(t, waiter)
		if r := <-l.Revoked(); r.Node != "c" || r.Reason != "please" {
			t.Errorf("%+v", r)
		}
		synctest.Wait()
		select {
		case r := <-l.Revoked():
			t.Errorf("told twice: %+v", r)
		default:
		}
		unlock(t, l)
		if r := <-waiter; r.err != nil {
			t.Fatal(r.err)
		}
	})
}

func TestUpAndDowngrade(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		l := must[*Lease](t)(a.Lock(t.Context(), "k"))
		reader := later(func() (*Lease, error) { return b.RLock(t.Context(), "k") })
		stillWaits(t, reader)
		if err := l.Downgrade(t.Context()); err != nil || l.Mode() != ModeShared || l.Err() != nil {
			t.Fatalf("%v, %v, %v", err, l.Mode(), l.Err())
		}
		r := <-reader
		if r.err != nil {
			t.Fatal(r.err)
		}
		older := later(func() (*Lease, error) { return nil, l.Upgrade(t.Context()) })
		stillWaits(t, older)
		time.Sleep(3 * time.Second)
		wantIs(t, r.lease.Upgrade(t.Context()), ErrClash)
		if r.lease.Err() != nil || r.lease.Mode() != ModeShared {
			t.Fatalf("the reader that clashed: %v, %v", r.lease.Err(), r.lease.Mode())
		}
		writer := later(func() (*Lease, error) { return c.Lock(t.Context(), "k") })
		token := l.Token()
		unlock(t, r.lease)
		if r := <-older; r.err != nil {
			t.Fatal(r.err)
		}
		if l.Mode() != ModeExclusive || l.Token() <= max(token, r.lease.Token()) || l.Err() != nil {
			t.Errorf("upgraded: %v, token %d after %d, %v", l.Mode(), l.Token(), token, l.Err())
		}
		stillWaits(t, writer)
		time.Sleep(time.Minute)
		if l.Err() != nil {
			t.Fatal(l.Err())
		}
		unlock(t, l)
		if w := <-writer; w.err != nil || w.lease.Token() <= l.Token() {
			t.Fatal(w.err)
		}
	})
}

func TestAnUpgradeThatIsGivenUpLeavesTheReader(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		l := must[*Lease](t)(a.RLock(t.Context(), "k"))
		r := must[*Lease](t)(b.RLock(t.Context(), "k"))
		err := l.Upgrade(testwait.Within(t, time.Second))
		wantIs(t, err, context.DeadlineExceeded, ErrHeld)
		<-time.After(time.Second) // until the voters know of the withdrawal
		unlock(t, must[*Lease](t)(b.TryRLock(t.Context(), "k")))
		unlock(t, r)
		if err := l.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err = b.TryRLock(t.Context(), "k")
		wantIs(t, err, ErrHeld)
	})
}

func TestALeasesContextReenters(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		outer := must[*Lease](t)(a.Lock(t.Context(), "k"))
		ctx := context.WithValue(outer.Context(), leaseKey{}, 1)
		inner := must[*Lease](t)(a.Lock(ctx, "k"))
		reader := must[*Lease](t)(a.RLock(inner.Context(), "k"))
		if inner.Token() != outer.Token() || outer.Depth() != 3 || inner.Depth() != 3 || reader.Depth() != 3 || !inner.Deadline().Equal(outer.Deadline()) {
			t.Errorf("token %d, depth %d", inner.Token(), inner.Depth())
		}
		within := must[*Lease](t)(a.Lock(inner.Context(), "k"))
		unlock(t, inner)
		wantIs(t, inner.Err(), ErrReleased)
		wantIs(t, within.Err(), ErrReleased)
		wantIs(t, inner.Unlock(t.Context()), ErrReleased)
		if outer.Err() != nil || reader.Err() != nil {
			t.Fatal(outer.Err(), reader.Err())
		}
		unlock(t, reader)
		_, err := a.TryLock(t.Context(), "k") // a plain context
		wantIs(t, err, ErrHeld)
		_, err = b.TryLock(outer.Context(), "k") // another mesh
		wantIs(t, err, ErrHeld)
		last := must[*Lease](t)(a.Lock(outer.Context(), "k"))
		unlock(t, outer)
		wantIs(t, last.Err(), ErrReleased)
		shared := must[*Lease](t)(a.RLock(t.Context(), "k"))
		_, err = a.Lock(shared.Context(), "k")
		wantIs(t, err, ErrClash)
	})
}

func contains(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
