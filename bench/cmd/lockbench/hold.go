package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/bench/internal/load"
	"github.com/lockmesh/lockmesh/bench/internal/table"
)

// The metrics of what is held and isn't used.
const (
	mHolderCPU = "processor of the holder, % of a core"
	mOthersCPU = "processor of all others, % of a core"
	mBytes     = "bytes per second"
	mPacketsPS = "packets per second"
	mTake      = "taken per second"
)

// heldByOthers is how many locks of other services are held: what costs something for each lock needs no more to show it.
const heldByOthers = 10_000

func holding(n int) string { return fmt.Sprintf("hold %d", n) }

// hold has leases held that nobody uses, and sees what that costs.
func (c *course) hold(ctx context.Context) error {
	say("%s: nothing for %v, and then the same with leases", wHold, c.idle)
	for _, s := range c.services {
		counts := c.held
		switch {
		case s.alone || s.name == nameRedis || s.name == nameRedisBatched || s.name == nameRedsyncBatch:
			continue // nobody renews them
		case s.kind != ours:
			counts = []int{heldByOthers}
		}
		w := newWatch(s)
		if err := doNothing(ctx, c.idle); err != nil {
			return err
		}
		idle := w.end()
		c.holds(0, s.name, idle, still{})
		for _, n := range counts {
			if err := c.holdSome(ctx, s, n, idle); err != nil {
				return fmt.Errorf("%s of %s: %w", wHold, s.name, err)
			}
		}
	}
	return nil
}

func (c *course) holdSome(ctx context.Context, s *service, n int, idle still) error {
	if err := c.take(ctx, s, 0, fmt.Sprintf("hold%d", n), n); err != nil {
		return err
	}
	w := newWatch(s)
	if err := doNothing(ctx, c.idle); err != nil {
		return err
	}
	got := w.end()
	c.holds(n, s.name, got, idle)
	say("  %-21s holds %6d: holder %.2f %% of a core, others %.2f %%; %.0f bytes/s, %.0f packets/s more than idle",
		s.name, n, got.holder, got.others, got.bytes-idle.bytes, got.packets-idle.packets)
	return c.call(ctx, s, 0, "release", none{}, nil)
}

// take has a node take n locks, and notes how fast.
func (c *course) take(ctx context.Context, s *service, node int, name string, n int) error {
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

func (c *course) holds(n int, service string, got, idle still) {
	c.add(holding(n), service, mHolderCPU, got.holder)
	c.add(holding(n), service, mOthersCPU, got.others)
	if n > 0 {
		c.add(holding(n), service, mBytes, got.bytes-idle.bytes)
		c.add(holding(n), service, mPacketsPS, got.packets-idle.packets)
	}
}

// still is what a service does while nobody asks it for anything: processor time in percent of a core, and traffic per second of everyone on this machine.
type still struct{ holder, others, bytes, packets float64 }

type watch struct {
	service        *service
	start          time.Time
	holder, others time.Duration
	net            traffic
}

func (w *watch) read() (holder, others time.Duration, net traffic) {
	first := w.service.nodes[0].Pid()
	holder, _ = cpuTime([]int{first})
	all, _ := cpuTime(w.service.pids())
	net, _ = loopback()
	return holder, all - holder, net
}

func newWatch(s *service) *watch {
	w := &watch{service: s, start: time.Now()}
	w.holder, w.others, w.net = w.read()
	return w
}

func (w *watch) end() still {
	holder, others, net := w.read()
	took := time.Since(w.start).Seconds()
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / took }
	t := net.since(w.net)
	return still{percent(holder - w.holder), percent(others - w.others), t.bytes / took, t.packets / took}
}

func doNothing(ctx context.Context, d time.Duration) error {
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
	t := table.New("", "leases held", "taken, a second", "processor of the holder, % of a core", "of all others, % of a core", "bytes a second, more than idle", "packets a second, more than idle")
	counts := slices.Concat([]int{0, heldByOthers}, o.held)
	slices.Sort(counts)
	counts = slices.Compact(counts)
	for _, s := range serviceNames {
		for _, n := range counts {
			if len(r.values(holding(n), s, mHolderCPU)) == 0 {
				continue
			}
			t.Row(s, table.Whole(n), table.Number(r.median(holding(n), s, mTake)), table.Number(r.median(holding(n), s, mHolderCPU)), table.Number(r.median(holding(n), s, mOthersCPU)),
				table.Number(r.median(holding(n), s, mBytes)), table.Number(r.median(holding(n), s, mPacketsPS)))
		}
	}
	return t
}
