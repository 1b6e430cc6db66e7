package clock

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asleepClock returns the system's clocks after the machine has slept for an hour, before the next
// reading of the costly clock is due.
func asleepClock(t *testing.T) *systemClock {
	t.Helper()
	c := newSystemClock()
	if !c.awake.ok {
		t.Skip("there is no clock here that goes on in sleep")
	}
	c.Fast()
	c.measuredAt.Store(int64(time.Hour)) // for the duration of the test no reading is due
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
		{"once it is due", func(c *systemClock) { c.measuredAt.Store(int64(time.Since(c.start) - measureEvery)) }, true},
		{"when the wall clock has leapt ahead of the monotonic one", func(c *systemClock) { c.wallLead.Add(-int64(time.Hour)) }, true},
		{"when it has leapt back", func(c *systemClock) { c.wallLead.Add(int64(time.Second)) }, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := asleepClock(t)
			before := Start.Add(time.Since(c.start))
			row.do(c)
			got := c.Fast()
			if slept := got.Sub(before) >= time.Hour-time.Second; slept != row.want {
				t.Errorf("an hour of sleep shows: %v, want %v", slept, row.want)
			}
			if now := c.Now(); row.want && (now.Slow.Sub(before) >= time.Hour-time.Second || now.Fast < got) {
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
	if got := c.Fast().Sub(Start); got < time.Hour-time.Second {
		t.Errorf("%v have passed since the start", got)
	}
	// A reading costs more than all else, and must have put off the next reading.
	if since := time.Since(c.start) - time.Duration(c.measuredAt.Load()); since < 0 || c.measuredAt.Load() <= 0 {
		t.Errorf("it was looked at %v ago", since)
	}
}

// A clock that seems to have gone back, as after a delayed reading, doesn't shorten the measured
// sleep.
func TestWhatWasSleptIsNotTakenBack(t *testing.T) {
	c := asleepClock(t)
	c.measureSleep(time.Duration(c.wallLead.Load()))
	slept := c.Fast()
	c.awake.at += time.Hour
	c.measureSleep(time.Duration(c.wallLead.Load()))
	if now := c.Fast(); now < slept {
		t.Errorf("%v after %v", now, slept)
	}
	// Without the sleep clock, the monotonic clock stands in.
	c.awake.ok = false
	c.measureSleep(time.Duration(c.wallLead.Load()))
	if now := c.Fast(); now < slept {
		t.Errorf("%v after %v", now, slept)
	}
}

// envTimeNamespace has the test binary print how far the clock of holders is ahead of the monotonic
// clock.
const envTimeNamespace = "LOCKMESH_TEST_TIME_NAMESPACE"

// A machine that sleeps looks to its processes like a time namespace in which the clock that counts
// sleep is ahead of the monotonic clock. There, holders must read the clock ahead.
func TestHoldersMeasureWithTheClockThatGoesOnInSleep(t *testing.T) {
	apart := func() time.Duration {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
			return 0
		}
		at, _ := sleeplessTime()
		return at - time.Duration(t.Nano())
	}
	if os.Getenv(envTimeNamespace) != "" {
		fmt.Printf("apart=%d\n", apart())
		return
	}
	// The number is fixed by the kernel's interface (linux/time.h), for systems without such a
	// namespace.
	if sleeplessClock != 7 {
		t.Errorf("holders measure with clock %d; CLOCK_BOOTTIME is 7", sleeplessClock)
	}
	if _, ok := sleeplessTime(); !ok {
		t.Skip("there is no clock here that goes on in sleep")
	}
	const slept = time.Hour
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in := exec.CommandContext(t.Context(), "unshare", "--time", "--boottime", fmt.Sprint(int(slept.Seconds())),
		self, "-test.run=^"+t.Name()+"$", "-test.count=1")
	in.Env = append(os.Environ(), envTimeNamespace+"=1")
	out, err := in.CombinedOutput()
	found := regexp.MustCompile(`apart=(-?\d+)`).FindSubmatch(out)
	if err != nil || found == nil {
		t.Skipf("no time namespace can be made here: %v: %s", err, out)
	}
	inside, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	// The sleep of the machine itself is in both readings. A minute is more than two readings take.
	if more := time.Duration(inside) - apart(); (more - slept).Abs() > time.Minute {
		t.Errorf("of an hour of sleep the clock of holders shows %v", more)
	}
}
