package lockmesh

import (
	"testing"
	"time"
)

func TestSleepShowsOnTheClockOfHolders(t *testing.T) {
	c := newSystemClock()
	if !c.awake.ok {
		t.Skip("there is no such clock here")
	}
	before := c.now()
	c.awake.at -= time.Hour             // as if the machine had slept, and the wall clock had been set back meanwhile
	c.looked.Add(-int64(2 * lookAfter)) // and that a moment ago
	after := c.now()
	if slept := after.Fast.Sub(before.Fast); slept < time.Hour {
		t.Errorf("%v have passed", slept)
	}
	if passed := after.Slow.Sub(before.Slow); passed >= time.Hour {
		t.Errorf("%v have passed for voters, who must not count it", passed)
	}
}
