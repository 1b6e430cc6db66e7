package engine

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// few callers are no crowd.
const few = manyCalls - 1

func TestYieldingToOwnCallersIsKeptUp(t *testing.T) {
	for _, row := range []struct {
		took time.Duration
		came int
		slow bool
	}{
		{50 * time.Microsecond, 0, false},
		{990 * time.Microsecond, 0, false},
		{time.Millisecond, 0, true},            // another goroutine computes
		{4 * time.Millisecond, 10, true},       // though some callers came
		{3 * time.Millisecond, 1024, false},    // a thousand callers on a single processor
		{19 * time.Millisecond, 10_000, false}, // ten thousand
		{20 * time.Millisecond, 10_000, true},  // a refresh waits as well
	} {
		var c adaptiveYield
		c.record(row.took, 1000, few, row.came)
		if end := vote.Instant(1000).Add(row.took); c.due(end, few) == row.slow || !c.due(end.Add(yieldPauseMin), few) {
			t.Errorf("%v for %d inputs: due again at once: %t, after %v: %t", row.took, row.came, c.due(end, few), yieldPauseMin, c.due(end.Add(yieldPauseMin), few))
		}
	}
}

// A process with a goroutine that computes all the time spends no more than a fiftieth of the time
// on yields.
func TestYieldingEndsWhereOthersCompute(t *testing.T) {
	const slice = 10 * time.Millisecond
	var c adaptiveYield
	now, waited := vote.Instant(0), time.Duration(0)
	for now < vote.Instant(time.Hour) {
		if c.due(now, few) {
			c.record(slice, now, few, 3)
			waited += slice
			now = now.Add(slice)
		}
		now = now.Add(time.Millisecond)
	}
	if waited > time.Hour/50 || waited < 30*slice {
		t.Errorf("%v of an hour were waited for others", waited)
	}
	for !c.due(now, few) {
		now = now.Add(time.Second)
	}
	c.record(time.Microsecond, now, few, 3) // the goroutine computes no more
	if !c.due(now, few) {
		t.Error("there is a pause though others were quick")
	}
	c.record(slice, now, few, 3)
	if end := now.Add(slice); c.due(end, few) || !c.due(end.Add(yieldPauseMin), few) {
		t.Error("the pause doesn't begin anew")
	}
}

// On a busy machine a yield takes long again and again, and brings messages of many callers. No
// yield is left out.
func TestACrowdIsBatchedByTheQueue(t *testing.T) {
	var c adaptiveYield
	now := vote.Instant(0)
	for range 1000 {
		if !c.due(now, 1024) {
			t.Fatalf("no yield to a crowd at %v", now)
		}
		c.record(50*time.Millisecond, now, 1024, 300)
		now = now.Add(50 * time.Millisecond)
	}
	// A crowd of callers that all wait for other nodes brings nothing. Such a crowd is treated as
	// few callers are, until a yield brings something again.
	c.record(50*time.Millisecond, now, 1024, 1)
	if end := now.Add(50 * time.Millisecond); c.due(end, 1024) || !c.due(end.Add(yieldPauseMin), 1024) {
		t.Error("a crowd that has nothing to say is let run first at once, or not after a pause")
	}
	c.record(50*time.Millisecond, now, 1024, 300)
	if !c.due(now, 1024) {
		t.Error("a crowd with something to say again isn't let run first")
	}
}
