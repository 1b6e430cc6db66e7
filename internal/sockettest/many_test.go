package sockettest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/internal/discovery"
	"github.com/lockmesh/lockmesh/internal/realworld"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// TestFault78ManyNodesStartAtOnce starts many nodes of a process at the same moment, with each
// other's addresses; in the hunt, 100 nodes (30 under the race detector) while all processors are
// busy with other work. Each node gets ready, and the number of dials under way never exceeds the
// limit of a process. The test reports the time; LOCKMESH_MANY sets the number of nodes.
// TestFault78OnlySoManyDialAtOnce of the root package reaches the limit in simulated time.
func TestFault78ManyNodesStartAtOnce(t *testing.T) {
	sampled.Waits(t)
	t.Parallel()
	const maxTTL = 2 * time.Second // no lease is held
	some, most := 24, 100          // some need two seconds of a processor
	if sampled.Raced {
		// A handshake takes several times as long, and the leases of other tests wait meanwhile.
		// The gossip of a hundred nodes alone then takes more than the processors have.
		some, most = 6, 30
	}
	nodes := sampled.Count(some, most)
	if n, err := strconv.Atoi(os.Getenv("LOCKMESH_MANY")); err == nil {
		nodes = n
	}
	stop := make(chan struct{})
	var work sync.WaitGroup
	for range sampled.Count(0, runtime.GOMAXPROCS(0)) {
		work.Go(func() { compute(stop) })
	}
	defer work.Wait()
	defer close(stop)

	voters := []string{"n0", "n1", "n2", "n3", "n4"}
	join := world.Join.(func(context.Context, lockmesh.Config, world.World) (*lockmesh.Mesh, error))
	dials := &dialCounter{}
	w := dials.in(realworld.World)
	var peers []string
	var all []*lockmesh.Mesh
	secret := ownSecret()
	defer func() {
		var closing sync.WaitGroup
		for _, m := range all {
			closing.Go(func() {
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		closing.Wait()
	}()
	start := time.Now()
	defer func() {
		var handshakes lockmesh.HandshakeStatus
		for _, m := range all {
			of := m.Stats().Handshakes
			handshakes.Silent += of.Silent
			handshakes.Unfinished += of.Unfinished
			handshakes.Displaced += of.Displaced
		}
		t.Logf("%d nodes took %v, of which the voters are quiet for %v; %d dials, up to %d at once; ended by time: %d; "+
			"incoming connections that were silent: %d, unfinished: %d, displaced: %d", nodes, time.Since(start).Round(time.Millisecond), maxTTL,
			dials.count.Load(), dials.most.Load(), dials.late.Load(), handshakes.Silent, handshakes.Unfinished, handshakes.Displaced)
	}()
	for i := range nodes {
		cfg := lockmesh.Config{
			Name: fmt.Sprintf("n%d", i), Bind: "127.0.0.1:0", Peers: peers, Voters: voters, MaxTTL: maxTTL, Secret: secret,
			Logger: slog.New(slog.DiscardHandler),
		}
		m, err := join(t.Context(), cfg, w)
		check(t, err)
		all = append(all, m)
		if len(peers) < lockmesh.MaxPeers {
			peers = append(peers, m.Addr())
		}
	}
	for _, m := range all {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // only a hang takes so long
		check(t, m.Ready(ctx))
		cancel()
	}
	if most := dials.most.Load(); most == 0 || most > discovery.DialsAtOnce {
		t.Errorf("%d dials were under way at once, want 1 to %d", most, discovery.DialsAtOnce)
	}
}

// dialCounter counts the dials and probes under way in all nodes of a world.
type dialCounter struct{ now, most, count, late atomic.Int64 }

// in returns a world in which the dials and probes are counted.
func (d *dialCounter) in(w world.World) world.World {
	listen, gossip := w.Listen, w.Gossip
	w.Listen = func(ctx context.Context, c transport.Config) (world.Links, error) {
		links, err := listen(ctx, c)
		if err != nil {
			return nil, err
		}
		return countedLinks{links, d}, nil
	}
	w.Gossip = func(l world.Links, c member.Config) (member.Group, error) { return gossip(l.(countedLinks).Links, c) }
	return w
}

// dial counts a dial until done is called, and whether the dial ended by its deadline.
func (d *dialCounter) dial(ctx context.Context) (done func()) {
	d.count.Add(1)
	n := d.now.Add(1)
	for most := d.most.Load(); n > most && !d.most.CompareAndSwap(most, n); most = d.most.Load() {
	}
	return func() {
		d.now.Add(-1)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			d.late.Add(1)
		}
	}
}

// countedLinks are links that count their dials.
type countedLinks struct {
	world.Links
	dials *dialCounter
}

func (l countedLinks) Dial(ctx context.Context, addr string, want vote.NodeID) (vote.Conn, error) {
	defer l.dials.dial(ctx)()
	return l.Links.Dial(ctx, addr, want)
}

func (l countedLinks) Probe(ctx context.Context, addr string) (vote.SessionID, error) {
	defer l.dials.dial(ctx)()
	return l.Links.Probe(ctx, addr)
}

// compute keeps a processor busy until stop is closed.
func compute(stop <-chan struct{}) {
	for n := 1; ; n++ {
		if n%(1<<20) == 0 {
			select {
			case <-stop:
				return
			default:
			}
		}
	}
}

// BenchmarkLockOfManyCallers measures the cost of a lock with 1,024 callers, each with a key of its
// own, alone and beside goroutines that compute on every processor.
func BenchmarkLockOfManyCallers(b *testing.B) {
	for _, busy := range []int{0, 1} {
		b.Run(fmt.Sprintf("busy=%d", busy), func(b *testing.B) {
			voters := []string{"a", "b", "c"}
			var peers []string
			var nodes []*lockmesh.Mesh
			secret := ownSecret()
			for _, v := range voters {
				m, err := lockmesh.Join(b.Context(), lockmesh.Config{
					Name: v, Bind: "127.0.0.1:0", Peers: peers, Voters: voters, MaxTTL: calmTTL, Secret: secret, Logger: slog.New(slog.DiscardHandler),
				})
				if err != nil {
					b.Fatal(err)
				}
				defer m.Close()
				nodes, peers = append(nodes, m), append(peers, m.Addr())
			}
			for _, m := range nodes {
				if err := m.Settled(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			stop := make(chan struct{})
			var work sync.WaitGroup
			for range busy * runtime.GOMAXPROCS(0) {
				work.Go(func() { compute(stop) })
			}
			const callers = 1024
			var callersDone sync.WaitGroup
			todo := make(chan struct{}, callers)
			for i := range callers {
				key := "k" + strconv.Itoa(i)
				callersDone.Go(func() {
					for range todo {
						l, err := nodes[0].Lock(b.Context(), key)
						if err != nil {
							b.Error(err)
							return
						}
						if err := l.Unlock(b.Context()); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for b.Loop() {
				todo <- struct{}{}
			}
			close(todo)
			callersDone.Wait()
			close(stop)
			work.Wait()
		})
	}
}
