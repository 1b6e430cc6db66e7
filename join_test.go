package lockmesh

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lockmesh/lockmesh/internal/engine"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// attended has a Close that waits for the handlers, as the Close of a port does.
type attended struct {
	world.Links
	handlers sync.WaitGroup
}

func (l *attended) Close() error {
	err := l.Links.Close()
	l.handlers.Wait()
	return err
}

// While gossip starts, peers may send more messages than a lane holds, and the loop doesn't run
// yet. Join must return nevertheless.
func TestJoinFailsWithoutGossipThoughPeersHaveMuchToSay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		p := w.Start()
		in := p.World()
		listen := in.Listen
		in.Listen = func(ctx context.Context, c transport.Config) (world.Links, error) {
			links, err := listen(ctx, c)
			l := &attended{Links: links}
			l.handlers.Go(func() {
				for range engine.LaneMax + 1 {
					b := transport.NewBatch()
					b.Add().Kind = vote.KindRequest
					c.Handler.Received(1, vote.SessionID{Node: "b", Incarnation: 1}, b)
				}
			})
			return l, err
		}
		broken := errors.New("no gossip")
		in.Gossip = func(world.Links, member.Config) (member.Group, error) {
			synctest.Wait()
			return nil, broken
		}
		_, err := join(t.Context(), Config{
			Name: "a", Bind: wireAddr("a"), Voters: []string{"a"}, Insecure: true, Clock: p.Clock(), Logger: slog.New(slog.DiscardHandler),
		}, in)
		wantIs(t, err, broken)
	})
}
