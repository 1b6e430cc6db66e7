package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/bench/internal/load"
	"github.com/lockmesh/lockmesh/bench/internal/peer"
	"github.com/lockmesh/lockmesh/bench/internal/stats"
)

// The metrics, as named in results.json.
const (
	mAcquire50, mAcquire99 = "acquire p50 µs", "acquire p99 µs"
	mCycle50, mCycle99     = "cycle p50 µs", "cycle p99 µs"
	mPerSecond             = "per second"
	mCPU                   = "processor µs"
	mPackets               = "packets"
	mBetween               = "between nodes per second"
	mJain                  = "fairness"
	mLongest               = "longest wait ms"
)

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// call calls the ith node of a service, with time for an operation as long as a round.
func (c *benchmark) call(ctx context.Context, s *service, i int, op string, args, result any) error {
	p, err := s.node(ctx, i)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime(c.length))
	defer cancel()
	return p.Call(ctx, op, args, result)
}

// newKey and sameKey are the two kinds of latency.
const newKey, sameKey = "latency, new keys", "latency, same key"

func (c *benchmark) latency(ctx context.Context, s *service) error {
	for _, same := range []bool{false, true} {
		kind := newKey
		if same {
			kind = sameKey
		}
		var l load.Latencies
		if err := c.call(ctx, s, 0, "latency", load.LatencyArgs{Name: c.name("lat"+fmt.Sprint(same), s), For: c.length, Same: same}, &l); err != nil {
			return err
		}
		c.add(kind, s.name, mAcquire50, micros(l.Acquire.P50))
		c.add(kind, s.name, mAcquire99, micros(l.Acquire.P99))
		c.add(kind, s.name, mCycle50, micros(l.Cycle.P50))
		c.add(kind, s.name, mCycle99, micros(l.Cycle.P99))
		if !same {
			if c.Curves[s.name] == nil {
				c.Curves[s.name] = stats.Hist{}
			}
			c.Curves[s.name].Merge(l.Acquire.Hist)
		}
		logf("  %-21s %-17s acquire p50 %7.1f µs, p99 %7.1f; cycle p50 %7.1f", s.name, kind, micros(l.Acquire.P50), micros(l.Acquire.P99), micros(l.Cycle.P50))
	}
	return nil
}

// callerCounts are the numbers of concurrent callers.
var callerCounts = []int{1, 8, 64, 256, 1024}

func throughputOf(callers int) string { return fmt.Sprintf("throughput, %d callers", callers) }

func (c *benchmark) throughput(ctx context.Context, s *service) error {
	op := "cycles"
	if s.kind == limit {
		op = "questions"
	}
	for _, callers := range callerCounts {
		var t load.Throughput
		spent, err := c.measureCost(s, func() error {
			return c.profiled(ctx, s, fmt.Sprint(callers), func() error {
				return c.call(ctx, s, 0, op, load.ThroughputArgs{Name: c.name("thr", s), For: c.length, Callers: callers}, &t)
			})
		})
		if err != nil {
			return err
		}
		name := throughputOf(callers)
		c.add(name, s.name, mPerSecond, t.PerSecond)
		c.recordCost(name, s.name, spent, float64(t.Total))
		logf("  %-21s %4d callers: %8.0f/s, %.1f µs of processor each, %.2f packets", s.name, callers, t.PerSecond, spent.cpu/float64(t.Total), spent.packets/float64(t.Total))
	}
	return nil
}

// cost is the cost of some work: processor time of all processes of a service, in microseconds,
// and packets over loopback.
type cost struct {
	cpu, packets           float64
	knowsCPU, knowsPackets bool
}

func (c *benchmark) measureCost(s *service, do func() error) (cost, error) {
	_, _ = s.node(context.Background(), 0)
	cpu, okCPU := cpuTime(s.pids())
	net, okNet := loopback()
	err := do()
	cpuAfter, okCPU2 := cpuTime(s.pids())
	netAfter, okNet2 := loopback()
	return cost{micros(cpuAfter - cpu), netAfter.since(net).packets, okCPU && okCPU2, okNet && okNet2}, err
}

// recordCost records the cost of a single operation, as the average over several.
func (c *benchmark) recordCost(workload, service string, s cost, times float64) {
	if times == 0 {
		return
	}
	if s.knowsCPU {
		c.add(workload, service, mCPU, s.cpu/times)
	}
	if s.knowsPackets {
		c.add(workload, service, mPackets, s.packets/times)
	}
}

const (
	// waitersEach is how many callers of each node want the key.
	waitersEach = 4
	// gather is how long before the start of the measurement the callers are started.
	gather = 300 * time.Millisecond
)

func (c *benchmark) handover(ctx context.Context, s *service) error {
	if s.kind == limit {
		return nil
	}
	for i := range nodesMax {
		if _, err := s.node(ctx, i); err != nil {
			return err
		}
	}
	dir, err := sharedDir(peer.MemoryDir())
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "board")
	if err := load.CreateBoard(path); err != nil {
		return err
	}
	board, err := load.OpenBoard(path)
	if err != nil {
		return err
	}
	defer func() { _ = board.Close() }()

	var parts [nodesMax]load.Contention
	var errs [nodesMax]error
	spent, err := c.measureCost(s, func() error {
		return c.profiled(ctx, s, wHandover, func() error {
			start := time.Now().Add(gather)
			var calls sync.WaitGroup
			for i := range nodesMax {
				calls.Go(func() {
					errs[i] = c.call(ctx, s, i, "contend", load.ContendArgs{
						Name: c.name("hand", s), Node: i, Board: path, Callers: waitersEach, Start: start, For: c.length,
					}, &parts[i])
				})
			}
			calls.Wait()
			return nil
		})
	})
	if err != nil {
		return err
	}
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	if err := board.Check(); err != nil { // the counts are reported even so, and the run fails
		err = fmt.Errorf("%s of %s: %w", wHandover, s.name, err)
		logf("  !!!! %v", err)
		c.failures = append(c.failures, err)
	}
	var counts, nodes []float64
	var longest time.Duration
	for _, p := range parts {
		longest = max(longest, p.Longest)
		counts = append(counts, p.Counts...)
		nodes = append(nodes, sum(p.Counts))
	}
	between := float64(board.HandOvers()) / c.length.Seconds()
	c.recordContention(wHandover, s, counts, longest)
	c.add(wHandover, s.name, mBetween, between)
	// The cost before the start of the measurement is assumed to be in proportion.
	c.recordCost(wHandover, s.name, spent, sum(counts)*float64(c.length+gather)/float64(c.length))
	logf("  %-21s handover: %.0f/s, %.0f/s between nodes, fairness %.3f, longest wait %.0f ms; by node %.0f", s.name, sum(counts)/c.length.Seconds(), between, stats.Jain(counts), micros(longest)/1000, nodes)
	return nil
}

func (c *benchmark) recordContention(workload string, s *service, counts []float64, longest time.Duration) {
	c.add(workload, s.name, mLongest, micros(longest)/1000)
	c.add(workload, s.name, mPerSecond, sum(counts)/c.length.Seconds())
	c.add(workload, s.name, mJain, stats.Jain(counts))
}

// goroutines is how many goroutines of a node want the same key.
const goroutines = 64

func (c *benchmark) local(ctx context.Context, s *service) error {
	if s.kind == limit {
		return nil
	}
	var part load.Contention
	args := load.ContendArgs{Name: c.name("local", s), Callers: goroutines, Start: time.Now().Add(gather), For: c.length}
	if err := c.call(ctx, s, 0, "contend", args, &part); err != nil {
		return err
	}
	c.recordContention(wLocal, s, part.Counts, part.Longest)
	logf("  %-21s local: %.0f/s, fairness %.3f", s.name, sum(part.Counts)/c.length.Seconds(), stats.Jain(part.Counts))
	return nil
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}
