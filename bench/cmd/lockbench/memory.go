package main

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/bench/internal/child"
	"github.com/lockmesh/lockmesh/bench/internal/load"
	"github.com/lockmesh/lockmesh/bench/internal/table"
)

// The metrics of memory.
const (
	mPerKey   = "bytes per key held"
	mLeftOver = "bytes per key, once given back"
	mHeap     = "bytes, empty"
)

// The processes under measurement.
const whoHolds, whoVotes = "holder", "voter"

func keeping(n int) string { return fmt.Sprintf("memory, %d keys", n) }

// memory takes many keys at a node that is no voter, and measures the memory used there and at a
// voter. The measurement has its own mesh.
func memory(ctx context.Context, o *options, r *results) error {
	f := &fleet{}
	defer f.close()
	logf("memory: starting a mesh")
	nodes, _, err := startMesh(ctx, f, o, "", "memory", 1)
	if err != nil {
		return err
	}
	who := map[string]*child.Process{whoVotes: nodes[0], whoHolds: nodes[len(voters)]}
	holder := who[whoHolds]
	if err := holder.Call(ctx, "ready", none{}, nil); err != nil {
		return err
	}
	for i, n := range o.kept {
		if err := holder.Call(ctx, "room", n, nil); err != nil {
			return err
		}
		before, err := heaps(ctx, who)
		if err != nil {
			return err
		}
		start := time.Now()
		if err := holder.Call(ctx, "take", load.HoldArgs{Name: fmt.Sprintf("memory%d", i)}, nil); err != nil {
			return err
		}
		took := time.Since(start)
		held, err := heaps(ctx, who)
		if err != nil {
			return err
		}
		if err := holder.Call(ctx, "release", none{}, nil); err != nil {
			return err
		}
		if err := holder.Call(ctx, "room", n, nil); err != nil { // as before
			return err
		}
		after, err := settled(ctx, who)
		if err != nil {
			return err
		}
		for name := range who {
			r.add(keeping(n), name, mHeap, before[name])
			r.add(keeping(n), name, mPerKey, (held[name]-before[name])/float64(n))
			r.add(keeping(n), name, mLeftOver, (after[name]-before[name])/float64(n))
			logf("  %-21s %d keys (taken in %.1fs): %.0f bytes each, %.1f left over", name, n, took.Seconds(), (held[name]-before[name])/float64(n), (after[name]-before[name])/float64(n))
		}
	}
	return nil
}

const (
	// forgetting is about how long a voter remembers an unused key, plus the time until the voter's
	// next cleanup round.
	forgetting = 2 * time.Second
	// forgettings bounds how often settled waits for forgetting.
	forgettings = 10
)

// settled returns the heaps once voters have stopped forgetting keys: voters remember a released
// key for a second or so.
func settled(ctx context.Context, who map[string]*child.Process) (map[string]float64, error) {
	last, err := heaps(ctx, who)
	for range forgettings {
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(forgetting):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		var now map[string]float64
		if now, err = heaps(ctx, who); err != nil {
			return nil, err
		}
		if now[whoVotes] > 0.95*last[whoVotes] {
			return now, nil
		}
		last = now
	}
	return last, err
}

// heaps returns the bytes of live objects in each process.
func heaps(ctx context.Context, who map[string]*child.Process) (map[string]float64, error) {
	all := make(map[string]float64)
	for name, p := range who {
		var u load.Usage
		if err := p.Call(ctx, "measure", none{}, &u); err != nil {
			return nil, err
		}
		all[name] = float64(u.Heap)
	}
	return all, nil
}

func memoryTable(r *results, o *options) *table.Table {
	t := table.New("", "keys held", "bytes per key", "bytes per key once given back", "the process before, bytes")
	for _, name := range []string{whoHolds, whoVotes} {
		for _, n := range o.kept {
			if values := r.values(keeping(n), name, mPerKey); len(values) > 0 {
				t.Row(name, table.Whole(n), table.Number(values[0]), table.Number(r.median(keeping(n), name, mLeftOver)), table.Number(r.median(keeping(n), name, mHeap)))
			}
		}
	}
	return t
}
