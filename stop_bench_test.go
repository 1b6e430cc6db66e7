package lockmesh

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkStop stops a node without a vote and with many leases, over loopback. The metric is the
// longest round of the node's loop, and bounds the wait of a refresh or of another node's message.
func BenchmarkStop(b *testing.B) {
	b.Run("leases=100000", func(b *testing.B) { benchmarkStop(b, 100_000) })
	b.Run("ttl/leases=20000", func(b *testing.B) { benchmarkStop(b, 20_000, WithTTL(8*time.Second)) })
}

func benchmarkStop(b *testing.B, leases int, opts ...Option) {
	const callers = 512
	for range b.N {
		b.StopTimer()
		var longest atomic.Int64
		var nodes []*Mesh
		var peers []string
		for _, name := range []string{"a", "b", "c", "d"} {
			cfg := Config{
				Name: name, Bind: "127.0.0.1:0", Peers: peers, Voters: []string{"a", "b", "c"},
				MaxTTL: 10 * time.Second, Insecure: true, Logger: slog.New(slog.DiscardHandler),
			}
			if name == "d" {
				cfg.Observer = &Observer{LoopWorked: func(w LoopWorked) { longest.Store(max(longest.Load(), int64(w.Longest))) }}
			}
			m, err := Join(b.Context(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			nodes, peers = append(nodes, m), append(peers, m.Addr())
		}
		for _, m := range nodes {
			if err := m.Ready(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		var work sync.WaitGroup
		for c := range callers {
			work.Go(func() {
				for i := c; i < leases; i += callers {
					if _, err := nodes[3].Lock(b.Context(), fmt.Sprintf("key-%d", i), opts...); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		work.Wait()
		longest.Store(0)
		b.StartTimer()
		if err := nodes[3].Stop(b.Context()); err != nil {
			b.Error(err)
		}
		b.StopTimer()
		b.ReportMetric(float64(longest.Load())/1e6, "ms/longest-round")
		for _, m := range nodes {
			m.Close()
		}
	}
}
