package lockmesh

import (
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func TestCourtesyToOwnCallersIsKeptUp(t *testing.T) {
	for _, row := range []struct {
		took time.Duration
		came int
		slow bool
	}{
		{50 * time.Microsecond, 0, false},
		{990 * time.Microsecond, 0, false},
		{time.Millisecond, 0, true},            // somebody computes
		{4 * time.Millisecond, 10, true},       // though some callers came
		{3 * time.Millisecond, 1024, false},    // a thousand callers on one processor
		{19 * time.Millisecond, 10_000, false}, // ten thousand
		{20 * time.Millisecond, 10_000, true},  // a refresh waits as well
	} {
		var c courtesy
		c.shown(row.took, 1000, row.came)
		if end := vote.Instant(1000).Add(row.took); c.due(end) == row.slow || !c.due(end.Add(courtesyPauseMin)) {
			t.Errorf("%v for %d inputs: due again at once: %t, after %v: %t", row.took, row.came, c.due(end), courtesyPauseMin, c.due(end.Add(courtesyPauseMin)))
		}
	}
}

// TestCourtesyEndsWhereOthersCompute has a process that computes all the time: of an hour no more than a second goes by in waiting for it.
func TestCourtesyEndsWhereOthersCompute(t *testing.T) {
	const slice = 10 * time.Millisecond
	var c courtesy
	now, waited := vote.Instant(0), time.Duration(0)
	for now < vote.Instant(time.Hour) {
		if c.due(now) {
			c.shown(slice, now, 3)
			waited += slice
			now = now.Add(slice)
		}
		now = now.Add(time.Millisecond)
	}
	if waited > time.Second || waited < 30*slice {
		t.Errorf("%v of an hour were waited for others", waited)
	}
	for !c.due(now) {
		now = now.Add(time.Second)
	}
	c.shown(time.Microsecond, now, 3) // it computes no more
	if !c.due(now) {
		t.Error("there is a pause though others were quick")
	}
	c.shown(slice, now, 3)
	if end := now.Add(slice); c.due(end) || !c.due(end.Add(courtesyPauseMin)) {
		t.Error("the pause doesn't begin anew")
	}
}
