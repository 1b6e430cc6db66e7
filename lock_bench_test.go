package lockmesh

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/memnet"
)

// BenchmarkLockOverSockets locks and unlocks a free key on a mesh of three voters and one node
// without a vote, over loopback. All four nodes run in this process, and the allocations are the
// sum. The sum depends on the scheduler: on an idle machine 3 by a voter, and 4 or 5 by the node
// without a vote (2026-11-24, two cores); 7 were seen on a busy machine.
func BenchmarkLockOverSockets(b *testing.B) {
	nodes := map[string]*Mesh{}
	var peers []string
	for _, name := range []string{"a", "b", "c", "d"} {
		m, err := Join(b.Context(), Config{
			Name: name, Bind: "127.0.0.1:0", Peers: peers, Voters: []string{"a", "b", "c"},
			MaxTTL: 10 * time.Second, Insecure: true, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			b.Fatal(err)
		}
		defer m.Close()
		peers = append(peers, m.Addr())
		nodes[name] = m
	}
	for _, m := range nodes {
		if err := m.Ready(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	for _, row := range []struct{ what, node string }{
		{"by a voter", "a"},
		{"by a node that doesn't vote", "d"},
	} {
		b.Run(row.what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				lease, err := nodes[row.node].Lock(b.Context(), "a-key-of-thirty-two-bytes-length")
				if err != nil {
					b.Fatal(err)
				}
				if err := lease.Unlock(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLockAlone locks and unlocks on a node that is the only voter, in memory: no message
// leaves the node, so the time is spent in calls and in the loop. The rows compare the cost of an
// observer.
func BenchmarkLockAlone(b *testing.B) {
	for _, row := range []struct {
		what     string
		observer *Observer
	}{
		{"without an observer", nil},
		{"with an observer", &Observer{
			LockRequested: func(ctx context.Context, _ LockRequested) context.Context { return ctx },
			LockGranted:   func(context.Context, LockGranted) {}, LeaseEnded: func(context.Context, LeaseEnded) {}, LoopWorked: func(LoopWorked) {},
		}},
	} {
		b.Run(row.what, func(b *testing.B) {
			p := memnet.New(0).Start()
			m, err := join(b.Context(), Config{
				Name: "a", Bind: wireAddr("a"), Voters: []string{"a"}, MaxTTL: MinTTL, Insecure: true, Clock: p.Clock(),
				Logger: slog.New(slog.DiscardHandler), Observer: row.observer,
			}, p.World())
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			if err := m.Ready(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				lease, err := m.Lock(b.Context(), "a-key-of-thirty-two-bytes-length")
				if err != nil {
					b.Fatal(err)
				}
				if err := lease.Unlock(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
