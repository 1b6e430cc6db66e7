package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/bench/internal/peer"
)

// ThroughputArgs say how many callers take and release keys, and for how long. Each caller has its
// own key.
type ThroughputArgs struct {
	Name    string
	For     time.Duration
	Callers int
}

// Throughput is the number of operations done.
type Throughput struct {
	PerSecond float64 // locks taken and released, or questions answered
	Total     int     // includes operations outside the measured interval
}

// Cycles counts locks taken and released.
func Cycles(ctx context.Context, n peer.Node, a ThroughputArgs) (Throughput, error) {
	return throughput(ctx, a, func(key string) error {
		unlock, _, err := n.Lock(ctx, key)
		if err != nil {
			return err
		}
		return unlock(ctx)
	})
}

// Questions counts the answered questions of a limit.
func Questions(ctx context.Context, n peer.Node, a ThroughputArgs) (Throughput, error) {
	limit, ok := n.(peer.Limit)
	if !ok {
		return Throughput{}, errors.New("this node isn't a limit")
	}
	return throughput(ctx, a, func(string) error { return limit.Ask() })
}

// paddedCounter is the counter of a caller, on its own cache line.
type paddedCounter struct {
	n atomic.Int64
	_ [56]byte
}

func throughput(ctx context.Context, a ThroughputArgs, once func(key string) error) (Throughput, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	counts := make([]paddedCounter, a.Callers)
	var stop atomic.Bool
	var callers sync.WaitGroup
	for i := range a.Callers {
		callers.Go(func() {
			key := Key(a.Name, i)
			for !stop.Load() {
				if err := once(key); err != nil {
					fail(err)
					return
				}
				counts[i].n.Add(1)
			}
		})
	}
	sum := func() (total int64) {
		for i := range counts {
			total += counts[i].n.Load()
		}
		return total
	}
	pause(ctx, a.For/warmUp)
	start, before := time.Now(), sum()
	pause(ctx, a.For)
	took, after := time.Since(start), sum()
	stop.Store(true)
	callers.Wait()
	if ctx.Err() != nil {
		return Throughput{}, context.Cause(ctx)
	}
	return Throughput{PerSecond: float64(after-before) / took.Seconds(), Total: int(sum())}, nil
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
