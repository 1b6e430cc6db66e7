package load

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/bench/internal/peer"
	"github.com/lockmesh/lockmesh/bench/internal/stats"
)

// LatencyArgs say for how long a single caller takes and releases keys repeatedly: always the same
// key, or a new key each time.
type LatencyArgs struct {
	Name string
	For  time.Duration
	Same bool
}

// Dist is a distribution of durations.
type Dist struct {
	N        int
	P50, P99 time.Duration
	Hist     stats.Hist
}

// Latencies are the durations of taking a key, and of a whole cycle of taking and releasing a key.
type Latencies struct{ Acquire, Cycle Dist }

// warmUp is the divisor for the warm-up: an uncounted run of a tenth of the length comes before
// each measurement.
const warmUp = 10

// Latency measures a single caller.
func Latency(ctx context.Context, n peer.Node, a LatencyArgs) (Latencies, error) {
	if _, _, err := latency(ctx, n, a.Name+"w", a.Same, a.For/warmUp); err != nil {
		return Latencies{}, err
	}
	acquire, cycle, err := latency(ctx, n, a.Name, a.Same, a.For)
	return Latencies{dist(acquire), dist(cycle)}, err
}

func latency(ctx context.Context, n peer.Node, name string, same bool, d time.Duration) (acquire, cycle []int64, err error) {
	key := Key(name, 0)
	for i, end := 1, time.Now().Add(d); ; i++ {
		start := time.Now()
		if !start.Before(end) {
			return acquire, cycle, nil
		}
		unlock, _, err := n.Lock(ctx, key)
		held := time.Now()
		if err != nil {
			return nil, nil, fmt.Errorf("lock: %w", err)
		}
		if err := unlock(ctx); err != nil {
			return nil, nil, fmt.Errorf("unlock: %w", err)
		}
		cycle = append(cycle, int64(time.Since(start)))
		acquire = append(acquire, int64(held.Sub(start)))
		if !same {
			key = Key(name, i)
		}
	}
}

func dist(ns []int64) Dist {
	slices.Sort(ns)
	d := Dist{N: len(ns), P50: time.Duration(stats.Quantile(ns, 0.5)), P99: time.Duration(stats.Quantile(ns, 0.99)), Hist: stats.Hist{}}
	for _, v := range ns {
		d.Hist.Add(v)
	}
	return d
}
