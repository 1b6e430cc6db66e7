package discovery

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestOnlySoManyDialAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := make(Slots, 3)
		var now, most atomic.Int32
		var work sync.WaitGroup
		for range 20 {
			work.Go(func() {
				giveBack := turns.acquire(t.Context())
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(dialSlotTime / 2)
				now.Add(-1)
				giveBack()
				giveBack() // a second time is nothing
			})
		}
		start := time.Now()
		work.Wait()
		if took := time.Since(start); most.Load() != 3 || took != 7*dialSlotTime/2 {
			t.Errorf("%d at once, and all took %v", most.Load(), took)
		}
	})
}

func TestADialThatWaitsForTheNetworkKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := make(Slots, 1)
		silent := turns.acquire(t.Context())
		start := time.Now()
		turns.acquire(t.Context())()
		if took := time.Since(start); took != dialSlotTime {
			t.Errorf("the next waited for %v", took)
		}
		giveBack := turns.acquire(t.Context())
		silent() // which it has given back long ago: this one must not free the turn of another
		ctx, cancel := context.WithTimeout(t.Context(), dialSlotTime/2)
		defer cancel()
		turns.acquire(ctx)()
		if ctx.Err() == nil {
			t.Error("a turn was given back twice")
		}
		giveBack()
		if len(turns) != 0 {
			t.Errorf("%d turns are taken", len(turns))
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
		t.Errorf("of three it greets %d, and of a hundred %d", len(few), len(met))
	}
}
