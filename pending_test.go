package lockmesh

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// The confirmation of an extension and the next call of Extend reach a busy node in one round: the
// call waits for its own confirmation.
func TestAnExtensionIsNotConfirmedByTheOneBefore(t *testing.T) {
	const latency = 10 * time.Millisecond
	inBubbleOver(t, latency, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		l := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(2*time.Second), WithoutRenewal()))
		time.Sleep(time.Second)
		first := later(func() (*Lease, error) { return nil, l.Extend(t.Context(), 1500*time.Millisecond) })
		time.Sleep(latency)
		busy := make(chan struct{})
		a.eng.Post(false, func(vote.Now) { <-busy })
		time.Sleep(2 * latency) // the voters' confirmations wait for the loop
		began := time.Now()
		second := later(func() (*Lease, error) { return nil, l.Extend(t.Context(), 2*time.Second) })
		stillWaits(t, second)
		close(busy)
		for _, call := range []<-chan outcome{first, second} {
			if r := <-call; r.err != nil {
				t.Error(r.err)
			}
		}
		if took := time.Since(began); took < 2*latency {
			t.Errorf("confirmed after %v, before a voter can have answered", took)
		}
		unlock(t, l)
	})
}

// A value that is set while an upgrade waits is shown with the upgraded lease from its first moment
// on.
func TestAnUpgradeShowsTheValueThatWasSetMeanwhile(t *testing.T) {
	const latency = 10 * time.Millisecond
	inBubbleOver(t, latency, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		l, other, upgrade := upgrading(t, a, b, WithValue([]byte("old")))
		check(t, l.SetValue(t.Context(), []byte("new")))
		time.Sleep(time.Second)
		info := must[Info](t)(c.Inspect(t.Context(), "k"))
		if len(info.Waiters) != 1 || string(info.Waiters[0].Value) != "new" {
			t.Errorf("the waiting upgrade has another value: %+v", info)
		}
		unlock(t, other)
		var views sync.WaitGroup
		for at := range 100 {
			views.Go(func() {
				time.Sleep(time.Duration(at) * time.Millisecond)
				info := must[Info](t)(c.Inspect(t.Context(), "k"))
				for _, h := range info.Holders {
					if string(h.Value) != "new" {
						t.Errorf("%v after the unlock: %+v", time.Duration(at)*time.Millisecond, h)
					}
				}
			})
		}
		views.Wait()
		if r := <-upgrade; r.err != nil {
			t.Error(r.err)
		}
		unlock(t, l)
	})
}

// An eviction and the next call of Extend reach a busy node in one round: the call ends with the
// lease, and the key is free once its least time to be held is over.
func TestAnExtensionEndsWithAnEvictedLease(t *testing.T) {
	const latency = 10 * time.Millisecond
	inBubbleOver(t, latency, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		l := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(2*time.Second), WithoutRenewal(), WithMinHold(20*time.Second)))
		time.Sleep(time.Second)
		first := later(func() (*Lease, error) { return nil, l.Extend(t.Context(), 1500*time.Millisecond) })
		time.Sleep(latency)
		busy := make(chan struct{})
		a.eng.Post(false, func(vote.Now) { <-busy })
		evicted := later(func() (*Lease, error) { return nil, b.Evict(testwait.Within(t, 5*time.Second), "k", l.Token()) })
		time.Sleep(4 * latency)
		second := later(func() (*Lease, error) { return nil, l.Extend(testwait.Within(t, time.Minute), 2*time.Second) })
		synctest.Wait()
		close(busy)
		if err := (<-first).err; err != nil { // the eviction was read before the confirmation
			wantIs(t, err, ErrEvicted)
		}
		check(t, (<-evicted).err)
		wantIs(t, (<-second).err, ErrEvicted)
		unlock(t, must[*Lease](t)(b.Lock(testwait.Within(t, time.Minute), "k")))
	})
}
