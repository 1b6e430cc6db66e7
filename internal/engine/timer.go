package engine

import (
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/internal/clock"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/wakeup"
)

// timer wakes the loop's goroutine.
type timer struct {
	fired *atomic.Bool // whether the newest setting has fired; nil while there is none
	due   vote.Instant // on the slow clock, by which timers run
	stop  func()
}

// set makes sure that wake is kicked after d at the latest.
func (t *timer) set(c clock.Clocks, now vote.Instant, d time.Duration, wake chan<- struct{}) {
	due := now.Add(d)
	if t.fired != nil {
		if !t.fired.Load() && t.due <= due {
			return // the timer fires early, and is then set again
		}
		t.stop()
	}
	fired := new(atomic.Bool)
	t.fired, t.due = fired, due
	t.stop = c.After(d, func() {
		fired.Store(true)
		wakeup.Send(wake)
	})
}
