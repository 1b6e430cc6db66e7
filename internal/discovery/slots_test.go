package discovery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// take takes a slot, which must become free before the test ends.
func take(t *testing.T, s *Slots) (giveBack func()) {
	t.Helper()
	giveBack, err := s.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return giveBack
}

// dialAll starts a number of dials at the same time, each of the given length. dialAll returns the
// largest number of dials under way, and how long all dials took.
func dialAll(t *testing.T, s *Slots, dials int, each time.Duration) (most int32, took time.Duration) {
	t.Helper()
	var now, largest atomic.Int32
	var work sync.WaitGroup
	start := time.Now()
	for range dials {
		work.Go(func() {
			giveBack, err := s.Take(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			for n := now.Add(1); ; {
				old := largest.Load()
				if n <= old || largest.CompareAndSwap(old, n) {
					break
				}
			}
			time.Sleep(each)
			now.Add(-1)
			giveBack()
			giveBack() // a second call does nothing
		})
	}
	work.Wait()
	if len(s.all)+len(s.fresh) != 0 {
		t.Errorf("after all dials %d turns are taken, %d of them fresh", len(s.all), len(s.fresh))
	}
	return largest.Load(), time.Since(start)
}

func TestOnlySoManyDialAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if most, took := dialAll(t, newSlots(20, 3), 20, FreshFor/2); most != 3 || took != 7*FreshFor/2 {
			t.Errorf("%d at once, and all took %v", most, took)
		}
	})
}

// Slow dials, at addresses without an answer or for want of a processor, are counted until they
// end.
func TestOnlySoManySlowDialsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 4 * FreshFor
		// Two more begin every FreshFor, until five are under way. Then two, two and a single dial
		// begin when as many have ended.
		if most, took := dialAll(t, newSlots(5, 2), 15, each); most != 5 || took != 3*each+2*FreshFor {
			t.Errorf("%d at once, and all took %v", most, took)
		}
		if most, _ := dialAll(t, NewSlots(), 500, dialTimeout); most != DialsAtOnce {
			t.Errorf("%d dials of a process at once, want %d", most, DialsAtOnce)
		}
	})
}

func TestADialThatHangsKeepsOthersWaitingBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newSlots(3, 1)
		start := time.Now()
		hanging := take(t, turns)
		take(t, turns)()
		if took := time.Since(start); took != FreshFor {
			t.Errorf("the next waited for %v", took)
		}
		fresh := take(t, turns)
		hanging() // not fresh any more: the slot of the fresh dial must not become free
		ctx, cancel := context.WithTimeout(t.Context(), FreshFor/2)
		defer cancel()
		if _, err := turns.Take(ctx); err == nil {
			t.Error("a turn was given back twice")
		}
		fresh()
		if len(turns.all)+len(turns.fresh) != 0 {
			t.Errorf("%d turns are taken, %d of them fresh", len(turns.all), len(turns.fresh))
		}
	})
}

// If addresses without an answer outnumber the slots, and are dialed again and again, another dial
// starts when the dials before have started.
func TestHangingDialsShutNoDialOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newSlots(4, 2)
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		for range 8 {
			work.Go(func() {
				for {
					giveBack, err := turns.Take(ctx)
					if err != nil {
						return
					}
					time.Sleep(dialTimeout)
					giveBack()
				}
			})
		}
		time.Sleep(10 * dialTimeout)
		synctest.Wait()
		start := time.Now()
		take(t, turns)()
		if took := time.Since(start); took > 2*dialTimeout+2*FreshFor {
			t.Errorf("a dial waited for %v", took)
		}
		cancel()
		work.Wait()
	})
}

func TestADialWaitsForItsTurnNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, s := range []*Slots{newSlots(1, 2), newSlots(2, 1)} {
			hanging := take(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), FreshFor/2)
			giveBack, err := s.Take(ctx)
			if !errors.Is(err, context.DeadlineExceeded) || giveBack != nil {
				t.Errorf("with no turn free: %v", err)
			}
			cancel()
			hanging()
			if len(s.all)+len(s.fresh) != 0 {
				t.Errorf("%d turns are taken, %d of them fresh", len(s.all), len(s.fresh))
			}
		}
	})
}

func TestAProberWidensItsRounds(t *testing.T) {
	addrs := make([]string, 100)
	for i := range addrs {
		addrs[i] = string(rune('0' + i))
	}
	g := &peerProber{}
	met := make(map[string]bool)
	for _, want := range []int{8, 16, 32, 64, 100, 100} {
		some := g.sample(slices.Clone(addrs))
		if len(some) != want || len(slices.Compact(slices.Sorted(slices.Values(some)))) != want {
			t.Errorf("%d addresses, want %d", len(some), want)
		}
		for _, a := range some {
			met[a] = true
		}
	}
	if few := (&peerProber{}).sample(addrs[:3]); len(few) != 3 || len(met) != 100 {
		t.Errorf("of three it probes %d, and of a hundred %d", len(few), len(met))
	}
}
