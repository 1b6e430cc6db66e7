package lockmesh

import (
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func TestHoldersMeasureWithTheFastestClock(t *testing.T) {
	c := &systemClock{}
	for _, row := range []struct {
		name        string
		awake, wall time.Duration // since the start
		want        time.Duration
	}{
		{"both agree", 1 * time.Second, 1 * time.Second, 1 * time.Second},
		{"the wall clock stands behind", 2 * time.Second, -time.Hour, 2 * time.Second},
		{"it is back, which is no advance", 3 * time.Second, 3 * time.Second, 3 * time.Second},
		{"it has run further", 4 * time.Second, 14 * time.Second, 14 * time.Second},
		{"it steps back; what was read was read", 5 * time.Second, 5 * time.Second, 15 * time.Second},
		{"it steps forth again, and is not counted twice", 6 * time.Second, 16 * time.Second, 16 * time.Second},
		{"it goes further still", 7 * time.Second, 27 * time.Second, 27 * time.Second},
		{"and from there with the other", 8 * time.Second, 28 * time.Second, 28 * time.Second},
	} {
		if got := c.fastest(row.awake, row.wall); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

func TestReadingsNeverGoBack(t *testing.T) {
	mock := clock.NewMock()
	for _, row := range []struct {
		name   string
		c      clocks
		meddle func(i int)
	}{
		{"the system's clocks", newClocks(nil), func(int) {}},
		{"a given clock that is set back and forth", newClocks(mock), func(i int) {
			if i%100 == 0 {
				mock.Set(time.Unix(int64(i%700), 0))
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var work sync.WaitGroup
			var mu sync.Mutex
			var last vote.Now
			for range 4 {
				work.Go(func() {
					for i := range 1000 {
						mu.Lock()
						before := last
						mu.Unlock()
						now := row.c.now()
						if now.Fast < before.Fast || now.Slow < before.Slow || row.c.fast() < now.Fast {
							t.Errorf("%+v after %+v", now, before)
							return
						}
						mu.Lock()
						last.Fast, last.Slow = max(last.Fast, now.Fast), max(last.Slow, now.Slow)
						mu.Unlock()
						_ = i
					}
				})
			}
			for i := range 1000 {
				row.meddle(i)
			}
			work.Wait()
		})
	}
}

func TestInstantsAreToldByTheWallClock(t *testing.T) {
	mock := clock.NewMock()
	mock.Set(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	c := newClocks(mock)
	at := c.fast().Add(5 * time.Second)
	if got, want := c.wall(at), mock.Now().Add(5*time.Second); !got.Equal(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if now := c.now(); now.Fast == 0 || now.Wall != vote.Micros(mock.Now().UnixMicro()) {
		t.Errorf("%+v", now)
	}
	system := newClocks(nil)
	if off := time.Until(system.wall(system.fast().Add(time.Hour))) - time.Hour; off.Abs() > time.Minute {
		t.Errorf("the system's clocks are %v off", off)
	}
}

func TestTimersFireOnceTheirTimeHasCome(t *testing.T) {
	mock := clock.NewMock()
	c := newClocks(mock)
	woken := make(chan struct{}, 1)
	c.after(time.Second, func() { kick(woken) })
	stop := c.after(time.Second, func() { t.Error("a stopped timer fired") })
	stop()
	mock.Add(time.Second - 1)
	select {
	case <-woken:
		t.Error("too early")
	default:
	}
	mock.Add(1)
	<-woken
}
