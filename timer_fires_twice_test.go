package lockmesh

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/lockmesh/lockmesh/internal/engine"
	"github.com/lockmesh/lockmesh/internal/memnet"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// twice is a clock with timers that fire twice, like the timers of a mock clock set forward by two
// goroutines at once.
type twice struct {
	*memnet.Clock
	looks atomic.Int32 // timers for a look at the electorate
}

func (c *twice) AfterFunc(d time.Duration, f func()) *clock.Timer {
	if d == engine.ElectorateEvery {
		c.looks.Add(1)
	}
	return c.Clock.AfterFunc(d, func() { f(); f() })
}

func (w *living) doubled(c **twice) func(*Config) {
	return func(cfg *Config) {
		cfg.Bootstrap = true
		*c = &twice{Clock: cfg.Clock.(*memnet.Clock)}
		cfg.Clock = *c
	}
}

func TestLeaveWaitsForItsTimeThoughItsTimerFiresTwice(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.founders = []string{"a"}
		var c *twice
		w.start("a", w.doubled(&c))
		w.ready("a")
		hold := make(chan struct{})
		w.nodes["a"].eng.Post(true, func(vote.Now) { <-hold }) // the loop can't report a's vote
		left := make(chan error)
		go func() { left <- w.nodes["a"].eng.LeaveElectorate(context.Background()) }()
		time.Sleep(engine.LeaveTTLs*DefaultMaxTTL + time.Second)
		close(hold)
		wantIs(t, <-left, ErrStillVoter)
	})
}

func TestAnElectorateIsLookedAtNoMoreOftenThoughTimersFireTwice(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		w.founders = []string{"a"}
		var c *twice
		w.start("a", w.doubled(&c))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		must[<-chan ElectorateStatus](t)(w.nodes["a"].WatchElectorate(ctx))
		const looks = 8
		time.Sleep(looks * engine.ElectorateEvery)
		if n := c.looks.Load(); n > looks+1 {
			t.Errorf("%d looks in the time of %d", n, looks)
		}
	})
}
