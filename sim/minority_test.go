package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// TestEveryoneIsServedThoughAMinorityStaysDead shows that no request waits for an unneeded dead
// voter. Settle can't show this, since Settle restarts all nodes. In each of the listed worlds a
// request used to wait in vain.
func TestEveryoneIsServedThoughAMinorityStaysDead(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	seeds := []uint64{1161, 1520, 1864, 2180, 2533, 3500, 4080}
	for seed := range uint64(50) {
		seeds = append(seeds, seed)
	}
	waited := 0
	for _, seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 77))
		o := Draw(seed)
		o.Load.Try, o.Load.Patience = 0, time.Hour
		o.Load.Mix.Unfit = 0 // with mistaken numbers of permits, two requests may wait for a third
		w := New(o)
		if !w.Script.Awake() {
			continue
		}
		w.Run(time.Duration(rng.IntN(10000)) * time.Millisecond)
		for range (o.Voters - 1) / 2 {
			h := w.host(string(rune('a' + rng.IntN(o.Voters))))
			if h.p != nil {
				w.crash(h, endingSilent, nil)
			}
			h.retired = true
			w.Run(time.Duration(rng.IntN(1000)) * time.Millisecond)
		}
		w.Run(time.Duration(rng.IntN(3000)) * o.MaxTTL / 1000)
		w.faults.Heal()
		w.load.drain()
		waited += w.load.waiting
		trip := 2 * o.Net.Most * time.Duration(100+o.Net.Jitter) / 100
		limit := servedTTLs*o.MaxTTL + servedFixed + time.Duration(w.load.waiting)*(servedEach+servedTrips*trip)
		if !w.RunUntil(limit, func() bool { return w.load.waiting == 0 }) || w.Err() != nil {
			t.Errorf("seed %d: %d wait%s %v", seed, w.load.waiting, w.whoWaits(), w.Err())
		}
	}
	if waited < 100 {
		t.Errorf("only %d waited: it has shown nothing", waited)
	}
}
