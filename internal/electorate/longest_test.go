package electorate

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// TestALongerMaxTTLWearsOff: founders are quiet for as long as a lease of an earlier mesh may
// last, and no longer.
func TestALongerMaxTTLWearsOff(t *testing.T) {
	const short, medium, long = time.Second, time.Minute, time.Hour
	var l longestTTL
	now := vote.Instant(1)
	for i, step := range []struct {
		after time.Duration
		ttl   time.Duration // of an electorate learned of; zero for none
		want  time.Duration
	}{
		{0, medium, medium},
		{time.Minute, long, long}, // raised: it counts at once
		{time.Hour, short, long},  // lowered
		{Drain(long) - 1, 0, long},
		{1, 0, short},
		{time.Hour, long, long},
		{0, short, long},
		{time.Minute, medium, long},            // raised again before the drain is over
		{Drain(long) - time.Minute, 0, medium}, // what came meanwhile counts
		{time.Hour, short, medium},
		{0, medium, medium}, // raised to what is remembered
		{Drain(medium), 0, medium},
		{0, short, medium},
		{0, long, long}, // raised beyond
		{0, medium, long},
		{0, short, long},
		{Drain(long), 0, medium}, // then the medium value wears off in its turn
		{Drain(medium), 0, short},
	} {
		now = now.Add(step.after)
		if l.pass(now); step.ttl != 0 {
			l.note(now, uint64(i+1), step.ttl)
		}
		if l.value != step.want {
			t.Fatalf("step %d: %v, want %v", i, l.value, step.want)
		}
	}
}

// TestAnEarlierVersionLowersNothing: a process that has given up its electorate learns of an
// earlier version from a process that is behind.
func TestAnEarlierVersionLowersNothing(t *testing.T) {
	const short, long = time.Second, time.Hour
	var l longestTTL
	l.note(1, 1, short)
	l.note(2, 3, long)
	l.note(3, 2, short)
	now := vote.Instant(3).Add(10 * Drain(long))
	if l.pass(now); l.value != long {
		t.Errorf("it is %v", l.value)
	}
	l.note(now, 5, short)
	if l.pass(now.Add(Drain(long))); l.value != short {
		t.Errorf("after a later version it is %v", l.value)
	}
}
