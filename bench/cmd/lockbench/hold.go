package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/bench/internal/load"
	"github.com/lockmesh/lockmesh/bench/internal/table"
)

// The metrics of held, unused leases.
const (
	mHolderCPU = "processor of the holder, % of a core"
	mOthersCPU = "processor of all others, % of a core"
	mBytes     = "bytes written per second"
	mWrites    = "writes per second"
	mTake      = "taken per second"
)

// heldByOthers is how many locks of other services are held: enough to show any cost per lock.
const heldByOthers = 10_000

// settleTime is how long leases are held before the measurement of their cost begins: the last
// leases reach all voters some milliseconds after the grant, and this work belongs to taking them.
const settleTime = time.Second

func holding(n int) string { return fmt.Sprintf("hold %d", n) }

// hold makes nodes hold unused leases, and measures the cost.
func (c *benchmark) hold(ctx context.Context) error {
	logf("%s: nothing for %v, and then the same with leases", wHold, c.idle)
	for _, s := range c.services {
		counts := c.held
		switch {
		case s.duplicate || s.kind == limit || s.kind == single || s.name == nameRedsyncBatch:
			// Not measured: nothing renews leases here, or another entry with the same servers or
			// the same library is measured.
			continue
		case s.kind != ours:
			counts = []int{heldByOthers}
		}
		w := newIdleMeter(s)
		if err := sleep(ctx, c.idle); err != nil {
			return err
		}
		c.recordIdle(0, s.name, w.stop())
		for _, n := range counts {
			if err := c.holdSome(ctx, s, n); err != nil {
				return fmt.Errorf("%s of %s: %w", wHold, s.name, err)
			}
		}
	}
	return nil
}

func (c *benchmark) holdSome(ctx context.Context, s *service, n int) error {
	if err := c.take(ctx, s, 0, fmt.Sprintf("hold%d", n), n); err != nil {
		return err
	}
	if err := sleep(ctx, settleTime); err != nil {
		return err
	}
	w := newIdleMeter(s)
	if err := sleep(ctx, c.idle); err != nil {
		return err
	}
	got := w.stop()
	c.recordIdle(n, s.name, got)
	logf("  %-21s holds %6d: holder %.2f %% of a core, others %.2f %%; %.0f bytes/s in %.0f writes", s.name, n, got.holder, got.others, got.bytes, got.writes)
	return c.call(ctx, s, 0, "release", none{}, nil)
}

// take has a node take n locks, and records how fast.
func (c *benchmark) take(ctx context.Context, s *service, node int, name string, n int) error {
	if err := c.call(ctx, s, node, "room", n, nil); err != nil {
		return err
	}
	start := time.Now()
	if err := c.call(ctx, s, node, "take", load.HoldArgs{Name: name}, nil); err != nil {
		return err
	}
	c.add(holding(n), s.name, mTake, float64(n)/time.Since(start).Seconds())
	return nil
}

func (c *benchmark) recordIdle(n int, service string, got idleCost) {
	c.add(holding(n), service, mHolderCPU, got.holder)
	c.add(holding(n), service, mOthersCPU, got.others)
	c.add(holding(n), service, mBytes, got.bytes)
	c.add(holding(n), service, mWrites, got.writes)
}

// idleCost is the activity of a service without requests: processor time in percent of a core, and
// bytes and writes per second of all of its processes. Unknown values are NaN.
type idleCost struct{ holder, others, bytes, writes float64 }

type idleMeter struct {
	service *service
	start   time.Time
	before  idleCost // totals; processor time in seconds
}

func newIdleMeter(s *service) *idleMeter {
	w := &idleMeter{service: s, start: time.Now()}
	w.before = w.read()
	return w
}

func (w *idleMeter) read() (s idleCost) {
	holder, ok := cpuTime([]int{w.service.nodes[0].Pid()})
	all, ok2 := cpuTime(w.service.pids())
	if s.holder, s.others = holder.Seconds(), (all - holder).Seconds(); !ok || !ok2 {
		s.holder, s.others = math.NaN(), math.NaN()
	}
	if s.bytes, s.writes, ok = written(w.service.pids()); !ok {
		s.bytes, s.writes = math.NaN(), math.NaN()
	}
	return s
}

func (w *idleMeter) stop() idleCost {
	now, took := w.read(), time.Since(w.start).Seconds()
	return idleCost{
		100 * (now.holder - w.before.holder) / took, 100 * (now.others - w.before.others) / took,
		(now.bytes - w.before.bytes) / took, (now.writes - w.before.writes) / took,
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func holdTable(r *results, o *options) *table.Table {
	t := table.New("", "leases held", "taken, a second", "processor of the holder, % of a core", "of all others, % of a core", "bytes written, a second", "writes, a second")
	counts := slices.Concat([]int{0, heldByOthers}, o.held)
	slices.Sort(counts)
	counts = slices.Compact(counts)
	for _, s := range serviceNames {
		for _, n := range counts {
			if len(r.values(holding(n), s, mHolderCPU)) == 0 {
				continue
			}
			t.Row(s, table.Whole(n), table.Number(r.median(holding(n), s, mTake)), table.Number(r.median(holding(n), s, mHolderCPU)), table.Number(r.median(holding(n), s, mOthersCPU)),
				table.Number(r.median(holding(n), s, mBytes)), table.Number(r.median(holding(n), s, mWrites)))
		}
	}
	return t
}
