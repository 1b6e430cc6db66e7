package lockmesh

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

func TestStopHandsLeasesBackAndKeepsTheSeat(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.foundAll()
		w.start("d", nil)
		lease := w.lock("c", "k")
		next := later(func() (*Lease, error) { return w.nodes["a"].Lock(t.Context(), "k") })
		stillWaits(t, next)
		began := time.Now()
		if err := w.nodes["c"].Stop(t.Context()); err != nil {
			t.Error(err)
		}
		r := <-next
		if took := time.Since(began); r.err != nil || took > time.Second {
			t.Errorf("the waiter was served %v after Stop began: %v", took, r.err)
		}
		wantIs(t, lease.Err(), ErrReleased)
		_, err := w.nodes["c"].Lock(t.Context(), "k")
		wantIs(t, err, ErrClosed)
		time.Sleep(DefaultMaxTTL) // c is back before another node takes c's seat
		w.start("c", nil)
		w.ready("c")
		time.Sleep(5 * time.Minute)
		if s := w.nodes["a"].Status().Electorate; !slices.Equal(s.names(), []string{"a", "b", "c"}) || s.Version != 1 {
			t.Errorf("%v", s)
		}
		w.unlock(r.lease)
	})
}

func TestStopAndLeaveWaitForEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		must[*Lease](t)(a.Lock(t.Context(), "k"))
		w.stall("a", true) // so the release isn't confirmed
		first := make(chan error, 1)
		go func() { first <- a.Stop(testwait.Within(t, time.Minute)) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err := a.Leave(ctx)
		wantIs(t, err, context.DeadlineExceeded)
		if !strings.Contains(err.Error(), "leave: another call") {
			t.Error(err)
		}
		err = <-first
		wantIs(t, err, ErrNoQuorum)
		if !strings.HasPrefix(err.Error(), "lockmesh: stop: ") || !strings.Contains(err.Error(), "one release is unconfirmed") {
			t.Error(err)
		}
		if again := a.Leave(t.Context()); again == nil || again.Error() != err.Error() {
			t.Errorf("%v, want the result of the first call, %v", again, err)
		}
	})
}

func TestDrainWaitsForHeldLeases(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		held, reader := must[*Lease](t)(a.Lock(t.Context(), "held")), must[*Lease](t)(a.RLock(t.Context(), "r"))
		must[*Lease](t)(b.Lock(t.Context(), "b's"))
		waiting := later(func() (*Lease, error) { return a.Lock(t.Context(), "b's") })
		stillWaits(t, waiting)
		drained := make(chan error, 1)
		go func() { drained <- a.Drain(t.Context()) }()
		r := <-waiting
		wantIs(t, r.err, ErrClosed)
		_, err := a.TryLock(t.Context(), "free")
		wantIs(t, err, ErrClosed)
		if !strings.Contains(err.Error(), "draining") {
			t.Error(err)
		}
		// Held leases go on.
		time.Sleep(10 * DefaultMaxTTL)
		if err := errors.Join(held.Err(), reader.Upgrade(t.Context()), held.SetValue(t.Context(), []byte("v"))); err != nil {
			t.Error(err)
		}
		inner := must[*Lease](t)(a.Lock(held.Context(), "held"))
		unlock(t, inner)
		unlock(t, held)
		synctest.Wait()
		if len(drained) != 0 {
			t.Fatal("a lease is held, and Drain has returned")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = a.Drain(ctx)
		wantIs(t, err, ErrHeld, context.DeadlineExceeded)
		if !strings.Contains(err.Error(), `the lease of "r" is still held`) {
			t.Error(err)
		}
		unlock(t, reader)
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if err := a.Drain(t.Context()); err != nil {
			t.Errorf("drained already: %v", err)
		}
		if err := a.Ready(t.Context()); err != nil { // a still votes
			t.Error(err)
		}
		if err := a.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		wantIs(t, a.Drain(t.Context()), ErrClosed)
	})
}
