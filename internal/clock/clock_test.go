package clock

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	benbjohnson "github.com/benbjohnson/clock"

	"github.com/lockmesh/lockmesh/internal/memnet"
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

// On a system without a clock that continues in sleep, the wall clock has fallen behind before the
// machine sleeps: NTP has corrected it for days, or an operator has set it. Each sleep is seen in
// full.
func TestASleepIsSeenThoughTheWallClockHasFallenBehind(t *testing.T) {
	c := &systemClock{rises: &rises{}}
	const day = 24 * time.Hour
	behind := -43 * time.Second // a quartz 50 ppm fast, corrected for ten days
	var awake, want time.Duration
	for _, row := range []struct {
		name               string
		awake, step, slept time.Duration // since the row before
	}{
		{"a day without sleep", day, 0, 0},
		{"ten days of small corrections", 9 * day, behind, 0},
		{"a sleep shorter than the corrections", 1, 0, 40 * time.Second},
		{"another", time.Minute, 0, 20 * time.Second},
		{"the wall clock is set back", time.Minute, -time.Hour, 0},
		{"a sleep shorter than the step", 1, 0, 10 * time.Minute},
		{"a longer one", 1, 0, 2 * time.Hour},
	} {
		awake += row.awake
		behind += row.step + row.slept
		want += row.awake + row.slept
		if got := c.fastest(awake, awake+behind); got < want {
			t.Errorf("%s: %v, want %v", row.name, got, want)
		}
	}
	if got := c.fastest(awake, awake+behind+riseLeast/2); got != want {
		t.Errorf("after a small correction %v, want %v", got, want)
	}
	// A goroutine that was stopped between its readings of the clocks and this call shows no rise.
	c.fastest(awake-1, awake+behind-time.Hour)
	if got := c.fastest(awake, awake+behind); got != want {
		t.Errorf("after a late reading %v, want %v", got, want)
	}
}

func TestReadingsNeverGoBack(t *testing.T) {
	mock := benbjohnson.NewMock()
	steady := memnet.New(0).Start().Clock()
	for _, row := range []struct {
		name   string
		c      Clocks
		meddle func(i int)
	}{
		{"the system's clocks", New(nil), func(int) {}},
		{"the system's clocks without a clock that goes on in sleep", &systemClock{start: time.Now(), rises: &rises{}}, func(int) {}},
		{"a given clock that is set back and forth", New(mock), func(i int) {
			if i%100 == 0 {
				mock.Set(time.Unix(int64(i%700), 0))
			}
		}},
		{"a given clock that is set back and forth, and knows how much time has passed", New(steady), func(i int) {
			if i%100 == 0 {
				steady.Set(time.Duration(i%700) * time.Second)
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
						now := row.c.Now()
						if now.Fast < before.Fast || now.Slow < before.Slow || row.c.Fast() < now.Fast {
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

// A jump of a given clock, as of the system's clocks, must not end the promises of a voter.
func TestVotersMeasureWithHowMuchTimeHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given := memnet.New(0).Start().Clock()
		given.Set(-time.Hour)
		c := New(given)
		for _, row := range []struct {
			name       string
			ahead      time.Duration
			slow, fast time.Duration // since the start, a second each time
		}{
			{"it isn't set", -time.Hour, 1 * time.Second, 1 * time.Second},
			{"it is set ahead", 0, 2 * time.Second, time.Hour + 2*time.Second},
			{"it is set back, which takes nothing back", -2 * time.Hour, 3 * time.Second, time.Hour + 3*time.Second},
			{"it is set ahead again, and is not counted twice", 0, 4 * time.Second, time.Hour + 4*time.Second},
			{"further still", time.Hour, 5 * time.Second, 2*time.Hour + 5*time.Second},
		} {
			time.Sleep(time.Second)
			given.Set(row.ahead)
			now := c.Now()
			if slow, fast := now.Slow.Sub(Start), now.Fast.Sub(Start); slow != row.slow || fast != row.fast || c.Fast() != now.Fast {
				t.Errorf("%s: %v and %v, want %v and %v", row.name, slow, fast, row.slow, row.fast)
			}
			if want := time.Now().Add(row.ahead); now.Wall != vote.Micros(want.UnixMicro()) || !c.Wall(now.Fast).Equal(want) {
				t.Errorf("%s: it shows %v, want %v", row.name, c.Wall(now.Fast), want)
			}
		}
	})
}

func TestInstantsAreToldByTheWallClock(t *testing.T) {
	mock := benbjohnson.NewMock()
	mock.Set(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	c := New(mock)
	at := c.Fast().Add(5 * time.Second)
	if got, want := c.Wall(at), mock.Now().Add(5*time.Second); !got.Equal(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if now := c.Now(); now.Fast == 0 || now.Wall != vote.Micros(mock.Now().UnixMicro()) {
		t.Errorf("%+v", now)
	}
	system := New(nil)
	if off := time.Until(system.Wall(system.Fast().Add(time.Hour))) - time.Hour; off.Abs() > time.Minute {
		t.Errorf("the system's clocks are %v off", off)
	}
}

func TestTimersFireOnceTheirTimeHasCome(t *testing.T) {
	mock := benbjohnson.NewMock()
	c := New(mock)
	woken := make(chan struct{}, 1)
	c.After(time.Second, func() { woken <- struct{}{} })
	stop := c.After(time.Second, func() { t.Error("a stopped timer fired") })
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
