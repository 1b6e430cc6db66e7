package sim

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// attentive counts how often its shell moves on after a closed connection without draining the
// node.
type attentive struct {
	Machine
	closed    bool // a connection was closed, and the node not drained since
	closes    *int
	forgotten *int
}

func (a *attentive) Unlink(now vote.Now, conn vote.Conn) {
	a.Machine.Unlink(now, conn)
	a.closed = true
	*a.closes++
}

func (a *attentive) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	a.closed = false
	return a.Machine.Drain(out, ev)
}

// Next is called by a shell without further work.
func (a *attentive) Next(now vote.Now) time.Duration {
	if a.closed {
		*a.forgotten++
	}
	return a.Machine.Next(now)
}

// TestWhatComesOfAClosedConnectionIsTakenAtOnce shows that the world drains a node at once after a
// closed connection. A lease may end in the moment in which its node hangs up on a former voter.
// The user must be notified then, and not with the next message or tick. (Found with
// dynamic membership: the world reported a loss 27 ms late.)
func TestWhatComesOfAClosedConnectionIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	sampled.Computes(t)
	closes, forgotten := 0, 0
	seeds := sampled.Count(3, 10)
	for seed := range uint64(seeds) {
		o := DrawDynamic(seed)
		o.Build = func(_ *World, cfg node.Config, now vote.Now) (Machine, error) {
			n, err := node.New(cfg, now)
			return &attentive{Machine: n, closes: &closes, forgotten: &forgotten}, err
		}
		w := New(o)
		w.Run(20 * time.Second)
		if err := w.Settle(); err != nil {
			t.Error(err)
		}
	}
	if closes < 10*seeds || forgotten > 0 {
		t.Errorf("%d connections were closed, and %d times what came of that was left", closes, forgotten)
	}
}
