package lockmesh

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/engine"
	"github.com/lockmesh/lockmesh/internal/memnet"
	"github.com/lockmesh/lockmesh/internal/sampled"
)

// heap returns the number of bytes in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// leaseMax is the limit for the bytes of a held lease at its holder in all, with a key of 32 bytes.
const leaseMax = 600

// The holder is no voter, and the voters' memory is freed before the measurement: any memory freed
// with the holder was the holder's. The bubble's time stands still meanwhile, so the leases are
// held.
func TestAHeldLeaseTakesLittleMemoryAtItsHolder(t *testing.T) {
	if sampled.Raced {
		t.Skip("the race detector allocates for itself")
	}
	const many = 20_000
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(0)
		voters := []string{"a", "b", "c"}
		start := func(name string) *Mesh {
			p := n.Start()
			cfg := Config{Name: name, Bind: wireAddr(name), Voters: voters, Insecure: true, Clock: p.Clock(), Logger: slog.New(slog.DiscardHandler)}
			for _, v := range voters {
				cfg.Peers = append(cfg.Peers, wireAddr(v))
			}
			m, err := join(t.Context(), cfg, p.World())
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		var office []*Mesh
		for _, v := range voters {
			office = append(office, start(v))
		}
		holder := start("d")
		if err := holder.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		leases := make([]*Lease, many)
		for i := range leases {
			leases[i] = must[*Lease](t)(holder.Lock(context.Background(), fmt.Sprintf("a-key-of-thirty-two-bytes-%06d", i)))
			if i%100 == 0 {
				// A node that locks while the bubble's time stands still remembers more of its
				// messages.
				time.Sleep(10 * time.Millisecond)
			}
		}
		time.Sleep(DefaultMaxTTL) // messages are remembered until the next refresh is acknowledged
		synctest.Wait()
		all := heap()
		end := func(m *Mesh) {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			*m.eng = engine.Engine{} // other objects may still refer to the mesh
		}
		for _, m := range office {
			end(m)
		}
		full := heap()
		for _, l := range leases {
			if err := l.Err(); err != nil {
				t.Fatal(err)
			}
		}
		end(holder)
		clear(leases)
		empty := heap()
		each := float64(full-empty) / many
		t.Logf("%.0f bytes for each of %d leases at the holder, and %.0f at three voters", each, many, float64(all-full)/many)
		if each > leaseMax {
			t.Errorf("%.0f bytes for each of %d leases at the holder; at most %d are wanted", each, many, leaseMax)
		}
		if float64(all-full)/many < 3*40 {
			t.Error("the voters took next to nothing, so what was measured isn't what was meant")
		}
		runtime.KeepAlive(leases)
		runtime.KeepAlive(n)
	})
}

// The node is the only voter of its mesh, so nothing waits for another goroutine, and time stands
// still in the bubble: the scheduler can't change the count. BenchmarkLockOverSockets measures
// locks over sockets, without a limit, since there the count depends on the scheduler.
func TestALockTakesFewAllocations(t *testing.T) {
	if sampled.Raced {
		t.Skip("the race detector allocates for itself")
	}
	const most = 2
	for name, endless := range map[string]bool{"a context that can't end": true, "a context that can": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				ctx := t.Context()
				if endless {
					ctx = context.Background()
				}
				m := w.join("a", []string{"a"}, nil)
				if err := m.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				n := testing.AllocsPerRun(2000, func() {
					lease, err := m.Lock(ctx, "a-key-of-thirty-two-bytes-length")
					if err != nil {
						t.Fatal(err)
					}
					if err := lease.Unlock(ctx); err != nil {
						t.Fatal(err)
					}
				})
				t.Logf("%v allocations", n)
				if n > most {
					t.Errorf("%v allocations for a lock and its unlocking; at most %d are wanted", n, most)
				}
			})
		})
	}
}
