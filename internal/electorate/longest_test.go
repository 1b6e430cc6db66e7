package electorate

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// TestALongerMaxTTLWearsOff : founders are quiet for as long as a lease of an earlier mesh may
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
			l.note(now, step.ttl)
		}
		if l.value != step.want {
			t.Fatalf("step %d: %v, want %v", i, l.value, step.want)
		}
	}
}
