package clock

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The clock of holders is never behind the clock that stops in sleep, by which voters measure.
func TestHoldersMeasureWithTheClockThatGoesOnInSleep(t *testing.T) {
	var awake unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_UPTIME_RAW, &awake); err != nil {
		t.Fatal(err)
	}
	at, ok := sleeplessTime()
	if !ok || at < time.Duration(awake.Nano()) {
		t.Errorf("%v, %v; awake for %v", at, ok, time.Duration(awake.Nano()))
	}
	if !newSystemClock().awake.exists() {
		t.Error("sleep is seen by the wall clock only")
	}
}
