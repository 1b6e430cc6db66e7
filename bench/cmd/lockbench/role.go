package main

import (
	"context"
	"os"
	"os/signal"
	"time"

	"github.com/lockmesh/lockmesh/bench/internal/child"
	"github.com/lockmesh/lockmesh/bench/internal/load"
	"github.com/lockmesh/lockmesh/bench/internal/peer"
)

// role is a process started by another process: a measured node, or a server. A role does one thing
// at a time.
type role struct {
	node    peer.Node
	held    load.Held
	guard   child.Guard
	profile load.Profile
	end     func()
}

// readyTime bounds how long anything may take to start.
const readyTime = time.Minute

// none stands for absent arguments and results.
type none struct{}

// opened says where a node or a server listens.
type opened struct{ Addr string }

func serveRole() {
	signal.Ignore(os.Interrupt) // the parent has received the interrupt, too, and closes our input
	r := &role{end: func() {}}
	ctx := context.Background()
	child.Serve(map[string]child.Op{
		"open":  child.Handler(r.open),
		"ready": child.Handler(r.ready),
		"first": child.Handler(r.first),
		"latency": child.Handler(func(a load.LatencyArgs) (load.Latencies, error) {
			return load.Latency(ctx, r.node, a)
		}),
		"cycles": child.Handler(func(a load.ThroughputArgs) (load.Throughput, error) {
			return load.Cycles(ctx, r.node, a)
		}),
		"questions": child.Handler(func(a load.ThroughputArgs) (load.Throughput, error) {
			return load.Questions(ctx, r.node, a)
		}),
		"contend": child.Handler(func(a load.ContendArgs) (load.Contention, error) {
			return load.Contend(ctx, r.node, a)
		}),
		"room":    child.Handler(func(n int) (none, error) { r.held.Room(n); return none{}, nil }),
		"take":    child.Handler(func(a load.HoldArgs) (none, error) { return none{}, r.held.Take(ctx, r.node, a) }),
		"release": child.Handler(func(none) (none, error) { return none{}, r.held.Release(ctx) }),
		"measure": child.Handler(func(none) (load.Usage, error) { return load.Measure(), nil }),

		"profile":   child.Handler(func(path string) (none, error) { return none{}, r.profile.Start(path) }),
		"unprofile": child.Handler(func(none) (none, error) { return none{}, r.profile.Stop() }),

		"echo":    child.Handler(func(none) (opened, error) { addr, err := peer.ServeEcho(); return opened{addr}, err }),
		"program": child.Handler(r.guard.Run),
		"etcd": child.Handler(func(s peer.EtcdServer) (_ none, err error) {
			end, err := s.Start()
			if err == nil {
				r.end = end
			}
			return none{}, err
		}),
	}, func() {
		r.guard.End()
		r.end()
	})
}

// open opens the node. A node of lockmesh isn't ready yet when open returns.
func (r *role) open(s peer.Spec) (o opened, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	if r.node, err = peer.Open(ctx, s); err != nil {
		return o, err
	}
	if m, ok := r.node.(*peer.Mesh); ok {
		o.Addr = m.Addr()
	}
	return o, nil
}

// ready waits until the node can lock.
func (r *role) ready(none) (none, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	if m, ok := r.node.(*peer.Mesh); ok {
		return none{}, m.Ready(ctx)
	}
	return none{}, nil
}

// first joins a running mesh, takes a lock, and leaves again. It returns the time from before Join
// until the lock was held.
func (r *role) first(s peer.Spec) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	start := time.Now()
	n, err := peer.Open(ctx, s)
	if err != nil {
		return 0, err
	}
	defer func() { _ = n.Close() }()
	unlock, _, err := n.Lock(ctx, load.Key("first", 0))
	if err != nil {
		return 0, err
	}
	return time.Since(start), unlock(ctx)
}
