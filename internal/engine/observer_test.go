package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

func TestChangesOfVoters(t *testing.T) {
	v := func(list ...string) (voters []quorum.VoterState) {
		for _, s := range list {
			state := quorum.Reachable
			if len(s) > 1 && s[1] == '-' {
				state = quorum.Unreachable
			}
			voters = append(voters, quorum.VoterState{Name: vote.NodeID(s[:1]), State: state})
		}
		return voters
	}
	var states voterStates
	for i, row := range []struct {
		voters []quorum.VoterState
		want   []string
	}{
		{v("b", "c"), []string{"b new reachable", "c new reachable"}},
		{v("b", "c"), nil},
		{v("b-", "c"), []string{"b reachable unreachable"}},
		{v("a", "b-", "c", "d"), []string{"a new reachable", "d new reachable"}},
		{v("b", "d"), []string{"a reachable gone", "b unreachable reachable", "c reachable gone"}},
		{nil, []string{"b reachable gone", "d reachable gone"}},
		{v("e"), []string{"e new reachable"}},
	} {
		var got []string
		for _, c := range states.update(row.voters) {
			from, to := "new", "gone"
			if c.Had {
				from = c.From.String()
			}
			if c.Has {
				to = c.To.State.String()
			}
			got = append(got, fmt.Sprint(c.Voter, " ", from, " ", to))
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("step %d: %q, want %q", i, got, row.want)
		}
	}
}

func TestTheWorkOfALoopIsSummedUp(t *testing.T) {
	var m workMeter
	at := func(ms int) vote.Instant { return vote.Instant(time.Second).Add(time.Duration(ms) * time.Millisecond) }
	now := func(ms int) vote.Now { return vote.Now{Slow: at(ms), Wall: vote.Micros(ms)} }
	m.begin(at(0))
	if told, due := m.end(now(2)); !due || told != (Worked{At: 2, Rounds: 1, Busy: 2 * time.Millisecond, Longest: 2 * time.Millisecond}) {
		t.Errorf("%v %+v", due, told)
	}
	m.begin(at(10))
	if told, due := m.end(now(13)); due {
		t.Errorf("%+v", told)
	}
	// Other goroutines run in the middle of this round.
	m.begin(at(20))
	m.pause(at(21))
	m.begin(at(60))
	if told, due := m.end(now(61)); due {
		t.Errorf("%+v", told)
	}
	m.begin(at(101))
	if told, due := m.end(now(102)); !due || told != (Worked{At: 102, Rounds: 3, Busy: 6 * time.Millisecond, Longest: 3 * time.Millisecond}) {
		t.Errorf("%v %+v", due, told)
	}
	if m.total != 8*time.Millisecond {
		t.Errorf("%v in all", m.total)
	}
}

func TestPausesAreCounted(t *testing.T) {
	for name, row := range map[string]struct {
		late, leap time.Duration
		want       time.Duration
	}{
		"on time":              {0, 0, 0},
		"early":                {-time.Second, 0, 0},
		"a little late":        {pauseMin - 1, 0, 0},
		"late":                 {pauseMin, 0, pauseMin},
		"the machine slept":    {0, time.Minute, time.Minute},
		"slept, and late":      {time.Second, time.Minute, time.Minute + time.Second},
		"the clock was turned": {0, -time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var m pauseMeter
			now := vote.Now{Fast: vote.Instant(time.Hour), Slow: vote.Instant(time.Hour)}
			m.note(now, vote.Never)
			now.Fast, now.Slow = now.Fast.Add(time.Hour+row.leap), now.Slow.Add(time.Hour)
			due := now.Slow.Add(-row.late)
			m.note(now, due)
			m.note(now, due) // the timer hasn't fired yet
			if got := min(m.count, 2); m.total != row.want || (row.want > 0) != (got == 1) {
				t.Errorf("%d pauses, %v", m.count, m.total)
			}
		})
	}
}

// The grant and the end of the context coincide, and the loop sees the grant first. The lease is
// over before the caller has had it, and the observer is notified of both.
func TestALeaseGrantedAsItsCallEndsIsAbandoned(t *testing.T) {
	inBubble(t, func(t *testing.T, w *mesh) {
		var told []string
		observer := &Observer{
			Granted: func(context.Context, Granted) { told = append(told, "granted") },
			Refused: func(context.Context, Refused) { told = append(told, "refused") },
			Ended: func(_ context.Context, e Ended) {
				told = append(told, "ended")
				if e.Reason != EndAbandoned || !errors.Is(e.Err, errs.Released) {
					t.Errorf("%+v", e)
				}
			},
		}
		eng := w.startWith("a", func(c *Config) { c.Observer = observer }, "a")
		if err := eng.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := requestFor("k", vote.Exclusive)
		r.Observation = eng.Ask(t.Context(), "lock", r)
		failed := make(chan error, 1)
		eng.Post(false, func(now vote.Now) {
			c := eng.newCall(t.Context(), "lock", r)
			eng.loop.submit(now, c)
			failed <- eng.loop.abandon(now, c, context.Canceled)
		})
		wantIs(t, <-failed, context.Canceled)
		synctest.Wait()
		if !slices.Equal(told, []string{"granted", "ended"}) {
			t.Errorf("told %q", told)
		}
		s, _ := eng.Stats()
		if s.Leases != 0 || s.Ends[EndAbandoned] != 1 || s.Ends[EndUnlocked] != 0 {
			t.Errorf("%+v", s)
		}
	})
}
