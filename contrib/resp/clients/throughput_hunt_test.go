//go:build hunt

package clients

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// TestThroughputBesideRedis measures the locks a second that redsync acquires and releases, by
// turns through an agent with three voters in processes of their own, with one Redis, and with
// three. The figures are for docs/redis-clients.md; the test asserts nothing.
func TestThroughputBesideRedis(t *testing.T) {
	servers := []string{newRedisServer(t), newRedisServer(t), newRedisServer(t)}
	agents := startAgents(t)
	version, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d cores; %s", runtime.NumCPU(), strings.TrimSpace(string(version)))
	const rounds = 5
	for _, callers := range []int{1, 8, 64} {
		services := []struct {
			name  string
			addrs []string
			rates []float64
		}{{"one agent", []string{agents[0].addr}, nil}, {"one Redis", servers[:1], nil}, {"three Redis", servers, nil}}
		for range rounds {
			for i := range services {
				services[i].rates = append(services[i].rates, rate(t, services[i].addrs, callers, 2*time.Second))
			}
		}
		var medians []float64
		for _, s := range services {
			slices.Sort(s.rates)
			medians = append(medians, s.rates[rounds/2])
			t.Logf("%2d callers, %-11s: %6.0f locks a second (%.0f to %.0f)", callers, s.name, s.rates[rounds/2], s.rates[0], s.rates[rounds-1])
		}
		t.Logf("%2d callers: one Redis has %.2f times as many, three Redis have %.2f times as many", callers, medians[1]/medians[0], medians[2]/medians[0])
	}
}

// rate returns the number of locks a second acquired and released by a number of callers, each with
// keys of its own.
func rate(t *testing.T, addrs []string, callers int, length time.Duration) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longTime)
	defer cancel()
	pools := make([]redsyncredis.Pool, len(addrs))
	for i, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: callers})
		defer c.Close()
		pools[i] = goredis.NewPool(c)
	}
	rs := redsync.New(pools...)
	var locks atomic.Int64
	var over atomic.Bool
	var wg sync.WaitGroup
	began := time.Now()
	time.AfterFunc(length, func() { over.Store(true) })
	for i := range callers {
		wg.Go(func() {
			for n := 0; !over.Load(); n++ {
				mutex := rs.NewMutex(fmt.Sprintf("rate/%d/%d", i, n%100), redsync.WithExpiry(9*time.Second), redsync.WithTries(1))
				if err := mutex.LockContext(ctx); err != nil {
					t.Errorf("lock: %v", err)
					return
				}
				if ok, err := mutex.UnlockContext(ctx); !ok || err != nil {
					t.Errorf("unlock: %v, %v", ok, err)
					return
				}
				locks.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(locks.Load()) / time.Since(began).Seconds()
}
