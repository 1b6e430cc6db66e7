package plan

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// TestWildScenarios draws scenarios anywhere within the bounds, sensible or not: links slower than
// the TTL, nodes in a crash loop, clocks hours apart. Locks may be hard to get; no check may be
// violated, and no figure may be out of its range.
func TestWildScenarios(t *testing.T) {
	sampled.Computes(t)
	const seeds = 12
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 7))
		pick := func(of ...string) string { return of[r.IntN(len(of))] }
		sets := []string{
			fmt.Sprintf("simulate.seed=%d", seed), "simulate.for=" + pick("20s", "1m"), "simulate.worlds=2",
			"lock_on=" + pick("all", "all", "voters"),
			"max_ttl=" + pick("200ms", "500ms", "2s", "10s"),
			"link.median=" + pick("1us", "100us", "5ms", "100ms", "1s"), "link.p99=" + pick("1s", "2s", "10s"),
			"link.loss=" + pick("0", "0.01", "0.5"),
			"link.outage.every=" + pick("0s", "0s", "100ms", "3s"), "link.outage.last=" + pick("1ms", "500ms", "5s"),
			"clocks.ppm=" + pick("0", "50", "5000"), "clocks.wall=" + pick("0s", "10ms", "24h"),
			"crashes.every=" + pick("0s", "1s", "10s"), "crashes.return=" + pick("0s", "100ms", "10s"), "crashes.stays_down=" + pick("0", "0.5", "1"),
			"crashes.replaced=" + pick("1s", "1h"),
			"partitions.every=" + pick("0s", "1s", "10s"), "partitions.last=" + pick("1ms", "1s", "1m"), "partitions.shape=" + pick("node", "group", "random"),
			"pauses.every=" + pick("0s", "100ms", "5s"), "pauses.last=" + pick("1ms", "1s", "20s"),
			"load.clients=" + pick("0", "1", "4"), "load.keys=" + pick("1", "5"), "load.hold=" + pick("0s", "100ms", "10s"), "load.think=" + pick("1ms", "1s"),
			"probe.every=" + pick("10ms", "300ms", "5s"), "probe.within=" + pick("1ms", "10ms"),
			"posts.count=" + pick("0", "1", "5"), "posts.hold=" + pick("1ms", "1s", "1m"),
			fmt.Sprintf("groups.a.voters=%d", 1+r.IntN(4)), fmt.Sprintf("groups.b.others=%d", r.IntN(3)),
		}
		if r.IntN(2) == 0 {
			sets = append(sets, "ttl=200ms")
		}
		const file = `{"groups": [{"name": "a", "voters": 1}, {"name": "b", "voters": 1}]}`
		s := mustRead(t, file, sets...)
		start := time.Now()
		rep := Run(s, nil)
		if d := time.Since(start); d > 5*time.Second {
			t.Logf("seed %d took %v: %q", seed, d, sets)
		}
		if rep.Violation != nil {
			t.Errorf("seed %d, %q: %s", seed, sets, *rep.Violation)
		}
		for _, x := range []*float64{rep.Availability, rep.Majority, rep.FreeLocks.OneRoundShare, rep.LoadLocks.OneRoundShare} {
			if x != nil && !(*x >= 0 && *x <= 1) {
				t.Errorf("seed %d: a share of %v:\n%v", seed, *x, rep)
			}
		}
	}
}
