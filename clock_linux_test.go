package lockmesh

import (
	"testing"
	"time"
)

// asleepClock returns the system's clocks, of which the costly one isn't due to be read, after the machine has slept for an hour.
func asleepClock(t *testing.T) *systemClock {
	t.Helper()
	c := newSystemClock()
	if !c.awake.ok {
		t.Skip("there is no clock here that goes on in sleep")
	}
	c.fast()
	c.looked.Store(int64(time.Hour)) // for the test's time it isn't due
	c.awake.at -= time.Hour
	return c
}

func TestTheClockThatGoesOnInSleepIsReadAgain(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(*systemClock)
		want bool
	}{
		{"not while it was read a moment ago and nothing has leapt", func(*systemClock) {}, false},
		{"once it is due", func(c *systemClock) { c.looked.Store(int64(time.Since(c.start) - lookAfter)) }, true},
		{"when the wall clock has leapt ahead of the monotonic one", func(c *systemClock) { c.apart.Add(-int64(time.Hour)) }, true},
		{"when it has leapt back", func(c *systemClock) { c.apart.Add(int64(time.Second)) }, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := asleepClock(t)
			before := firstInstant.Add(time.Since(c.start))
			row.do(c)
			got := c.fast()
			if slept := got.Sub(before) >= time.Hour-time.Second; slept != row.want {
				t.Errorf("an hour of sleep shows: %v, want %v", slept, row.want)
			}
			if now := c.now(); row.want && (now.Slow.Sub(before) >= time.Hour-time.Second || now.Fast < got) {
				t.Errorf("%+v after %v: voters measure without sleep, and nothing goes back", now, got)
			}
		})
	}
}

func TestAFirstReadingLooksAtOnce(t *testing.T) {
	c := newSystemClock()
	if !c.awake.ok {
		t.Skip("there is no clock here that goes on in sleep")
	}
	c.awake.at -= time.Hour
	if got := c.fast().Sub(firstInstant); got < time.Hour-time.Second {
		t.Errorf("%v have passed since the start", got)
	}
	// A look costs more than all else, and must have put off the next.
	if since := time.Since(c.start) - time.Duration(c.looked.Load()); since < 0 || c.looked.Load() <= 0 {
		t.Errorf("it was looked at %v ago", since)
	}
}

// A clock that seems to have gone back, as when a reading is delayed, takes nothing back.
func TestWhatWasSleptIsNotTakenBack(t *testing.T) {
	c := asleepClock(t)
	c.look(time.Duration(c.apart.Load()))
	slept := c.fast()
	c.awake.at += time.Hour
	c.look(time.Duration(c.apart.Load()))
	if now := c.fast(); now < slept {
		t.Errorf("%v after %v", now, slept)
	}
	// Without the clock, the monotonic one stands in for it.
	c.awake.ok = false
	c.look(time.Duration(c.apart.Load()))
	if now := c.fast(); now < slept {
		t.Errorf("%v after %v", now, slept)
	}
}
