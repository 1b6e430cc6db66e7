package lockmesh

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/discovery"
	"github.com/lockmesh/lockmesh/internal/memnet"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// underWay counts the dials and probes under way in all nodes of a test. A dial is fresh for
// FreshFor after its start.
type underWay struct {
	mu                  sync.Mutex
	now, most           int
	freshNow, freshMost int
}

// begin counts a dial until end is called.
func (u *underWay) begin() (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.now++
	u.freshNow++
	u.most, u.freshMost = max(u.most, u.now), max(u.freshMost, u.freshNow)
	aged := sync.OnceFunc(func() { u.freshNow-- })
	// The timer fires a nanosecond before the slot becomes free for the next fresh dial.
	timer := time.AfterFunc(discovery.FreshFor-1, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		aged()
	})
	return func() {
		timer.Stop()
		u.mu.Lock()
		defer u.mu.Unlock()
		aged()
		u.now--
	}
}

// countedLinks counts the dials of links.
type countedLinks struct {
	world.Links
	dials *underWay
}

func (l countedLinks) Dial(ctx context.Context, addr string, want vote.NodeID) (vote.Conn, error) {
	defer l.dials.begin()()
	return l.Links.Dial(ctx, addr, want)
}

func (l countedLinks) Probe(ctx context.Context, addr string) (vote.SessionID, error) {
	defer l.dials.begin()()
	return l.Links.Probe(ctx, addr)
}

// counted returns a process's world with all dials counted, and with slots from turns.
func (u *underWay) counted(p *memnet.Process, turns world.Turns) world.World {
	w := p.World()
	listen, gossip := w.Listen, w.Gossip
	w.Dials = turns
	w.Listen = func(ctx context.Context, c transport.Config) (world.Links, error) {
		links, err := listen(ctx, c)
		if err != nil {
			return nil, err
		}
		return countedLinks{links, u}, nil
	}
	w.Gossip = func(l world.Links, c member.Config) (member.Group, error) { return gossip(l.(countedLinks).Links, c) }
	return w
}

// TestFault78OnlySoManyDialAtOnce has fifty nodes of one process start at the same moment, each
// with the addresses of all. Even if dials are slow, or a voter doesn't answer, no more dials are
// under way than a process may have, and every other node gets ready.
func TestFault78OnlySoManyDialAtOnce(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for _, c := range []struct {
		name    string
		latency time.Duration // of one way; a dial takes two
		cut     string        // the voter out of reach of all other nodes; empty for none
		most    int           // the dials under way at most
	}{
		{"quick dials", discovery.FreshFor / 4, "", discovery.FreshDials},
		{"slow dials", 2 * discovery.FreshFor, "", discovery.DialsAtOnce},
		{"a voter that doesn't answer", discovery.FreshFor / 50, "n0", discovery.DialsAtOnce},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubbleOver(t, c.latency, func(t *testing.T, w *wire) {
				w.Cut(func(from, to string) bool { return c.cut != "" && (from == c.cut || to == c.cut) })
				const nodes = 50
				var addrs []string
				for i := range nodes {
					addrs = append(addrs, fmt.Sprintf("10.1.0.%d:7950", i+1))
				}
				dials, turns := &underWay{}, discovery.NewSlots()
				for i, addr := range addrs {
					p := w.Start()
					cfg := Config{
						Name: fmt.Sprintf("n%d", i), Bind: addr, Peers: addrs, Voters: []string{"n0", "n1", "n2", "n3", "n4"},
						MaxTTL: 10 * time.Second, Insecure: true, Clock: p.Clock(), Logger: slog.New(slog.DiscardHandler),
					}
					m, err := join(t.Context(), cfg, dials.counted(p, turns))
					check(t, err)
					w.meshes = append(w.meshes, m)
				}
				start := time.Now()
				for _, m := range w.meshes {
					if m.Name() != c.cut {
						check(t, m.Ready(testwait.Within(t, time.Minute)))
					}
				}
				t.Logf("ready after %v", time.Since(start))
				dials.mu.Lock()
				defer dials.mu.Unlock()
				// At first the nodes want more dials than the limit, so the limit is reached.
				if dials.most != c.most {
					t.Errorf("up to %d dials were under way at once, want %d", dials.most, c.most)
				}
				if dials.freshMost != discovery.FreshDials {
					t.Errorf("up to %d dials younger than %v were under way at once, want %d", dials.freshMost, discovery.FreshFor, discovery.FreshDials)
				}
			})
		})
	}
}
