package lockmesh

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/memnet"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// coalescing writes messages flushed later half a millisecond later, as links of the transport do,
// and loses what isn't written when it is closed.
type coalescing struct {
	world.Links
	mu     sync.Mutex
	queued []queuedMessage
}

type queuedMessage struct {
	conn vote.Conn
	m    vote.Message
}

func (l *coalescing) Queue(c vote.Conn, m *vote.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued = append(l.queued, queuedMessage{c, *m})
}

func (l *coalescing) Flush(c vote.Conn, later bool) {
	write := func() { l.write(func(of vote.Conn) bool { return of == c }) }
	if later {
		time.AfterFunc(500*time.Microsecond, write)
		return
	}
	write()
}

// write writes the queued messages of some connections.
func (l *coalescing) write(isOf func(vote.Conn) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued = slices.DeleteFunc(l.queued, func(q queuedMessage) bool {
		if isOf(q.conn) {
			l.Links.Queue(q.conn, &q.m)
		}
		return isOf(q.conn)
	})
}

func (l *coalescing) Finish() { l.write(func(vote.Conn) bool { return true }) }

// coalesced returns a process's world with such links.
func coalesced(p *memnet.Process) world.World {
	w := p.World()
	listen, gossip := w.Listen, w.Gossip
	w.Listen = func(ctx context.Context, c transport.Config) (world.Links, error) {
		links, err := listen(ctx, c)
		return &coalescing{Links: links}, err
	}
	w.Gossip = func(l world.Links, c member.Config) (member.Group, error) { return gossip(l.(*coalescing).Links, c) }
	return w
}

// A node that stops or leaves right after an Unlock leaves no voter that keeps the key: the release
// reaches each voter, though the node waits for a majority only, itself among it.
func TestAKeyUnlockedJustBeforeAStopIsFree(t *testing.T) {
	for _, end := range []func(*Mesh, context.Context) error{(*Mesh).Stop, (*Mesh).Leave} {
		inBubbleOver(t, 50*time.Microsecond, func(t *testing.T, w *wire) {
			var all []*Mesh
			voters := []string{"a", "b", "c"}
			for _, name := range voters {
				p := w.Start()
				m, err := join(t.Context(), Config{
					Name: name, Bind: wireAddr(name), Voters: voters, Peers: addrsOf(voters...), Insecure: true,
					Clock: p.Clock(), Logger: slog.New(slog.DiscardHandler),
				}, coalesced(p))
				check(t, err)
				w.meshes, all = append(w.meshes, m), append(all, m)
			}
			for _, m := range all {
				check(t, m.Settled(t.Context()))
			}
			l := must[*Lease](t)(all[1].Lock(t.Context(), "k"))
			time.Sleep(time.Second) // each voter hears of the lease
			unlock(t, l)
			check(t, end(all[1], t.Context()))
			start := time.Now()
			unlock(t, must[*Lease](t)(all[0].Lock(t.Context(), "k")))
			if took := time.Since(start); took > 100*time.Millisecond {
				t.Errorf("the key was free after %v", took)
			}
		})
	}
}
