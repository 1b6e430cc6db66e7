package lockmesh

import (
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/engine"
	"github.com/lockmesh/lockmesh/internal/vote"
)

func TestStatsOfLocks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		var held []*Lease
		for _, key := range []string{"x", "y", "z"} {
			held = append(held, must[*Lease](t)(a.Lock(t.Context(), key)))
		}
		must[*Lease](t)(a.RLock(held[0].Context(), "x")) // a re-entry
		must[*Lease](t)(b.Lock(t.Context(), "b's"))
		first := later(func() (*Lease, error) { return a.Lock(t.Context(), "b's") })
		time.Sleep(3 * time.Second)
		second := later(func() (*Lease, error) { return a.Lock(t.Context(), "x") })
		time.Sleep(4 * time.Second)
		stillWaits(t, first)
		stillWaits(t, second)
		s := a.Stats()
		if s.Closed || !s.At.Equal(time.Now()) || s.Leases != 3 || s.Waiting != 2 || s.OldestWait != 7*time.Second {
			t.Errorf("%+v", s)
		}
		if got := s.LeasesEnded[EndUnlocked]; got != 0 {
			t.Errorf("%d leases were unlocked", got)
		}
		unlock(t, held[1])
		unlock(t, held[2])
		if s = a.Stats(); s.Leases != 1 || s.LeasesEnded[EndUnlocked] != 2 || len(s.LeasesEnded) != int(engine.EndReasons) {
			t.Errorf("%+v", s)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		s = a.Stats()
		if !s.Closed || !s.At.IsZero() || s.Leases != 0 || s.Waiting != 0 || len(s.Electorate.Voters) != 0 {
			t.Errorf("%+v", s)
		}
		if s.LeasesEnded[EndUnlocked] != 2 || s.LeasesEnded[EndClosed] != 1 {
			t.Errorf("after Close: %v", s.LeasesEnded)
		}
	})
}

// Stats and Status agree.
func TestStatsOfVoters(t *testing.T) {
	const latency = 5 * time.Millisecond
	inBubbleOver(t, latency, func(t *testing.T, w *wire) {
		voters := []string{"a", "b", "c"}
		a := w.join("a", voters, nil)
		if s := a.Stats(); s.Quiet != DefaultMaxTTL || s.Electorate.Ready || s.Electorate.Spare != 0 {
			t.Errorf("at the start %+v", s)
		}
		w.join("b", voters, nil)
		w.join("c", voters, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		s := a.Stats()
		if !s.Electorate.Ready || s.Electorate.Counting != 3 || s.Electorate.Majority != 2 || s.Electorate.Spare != 1 || s.Quiet != 0 || s.RefusedPeers != 0 {
			t.Errorf("%+v", s)
		}
		if !reflect.DeepEqual(s.Electorate, a.Status().Electorate) {
			t.Errorf("Stats has %+v, and Status %+v", s.Electorate, a.Status().Electorate)
		}
		for _, v := range s.Electorate.Voters {
			trip := 2 * latency
			if v.Name == "a" {
				trip = 1 // no time passes, and zero stands for unknown
			}
			if v.RoundTrip != trip || v.ClockOffset.Abs() > time.Millisecond {
				t.Errorf("%+v: want a round trip of %v", v, trip)
			}
		}
		w.stall("b", true)
		time.Sleep(5 * time.Second)
		if s := a.Stats().Electorate; !s.Ready || s.Counting != 2 || s.Spare != 0 {
			t.Errorf("with b gone: %+v", s)
		}
		w.stall("c", true)
		time.Sleep(5 * time.Second)
		if s := a.Stats().Electorate; s.Ready || s.Counting != 1 || s.Spare != 0 {
			t.Errorf("with b and c gone: %+v", s)
		}
	})
}

func TestStatsShowTheOffsetOfAVotersClock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		w.clocks[b].Set(3 * time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, v := range a.Stats().Electorate.Voters {
			want := time.Duration(0)
			if v.Name == "b" {
				want = 3 * time.Second
			}
			if v.ClockOffset != want {
				t.Errorf("%s is ahead by %v, want %v", v.Name, v.ClockOffset, want)
			}
		}
	})
}

func TestStatsCountPauses(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		time.Sleep(time.Minute)
		if s := a.Stats(); s.Pauses != 0 || s.PausedFor != 0 {
			t.Errorf("%d pauses, %v", s.Pauses, s.PausedFor)
		}
		w.processes[a].Pause()
		time.Sleep(30 * time.Second)
		w.processes[a].Resume()
		time.Sleep(time.Second)
		// The next refresh was due up to two seconds after the beginning of the pause.
		if s := a.Stats(); s.Pauses != 1 || s.PausedFor < 28*time.Second || s.PausedFor > 30*time.Second {
			t.Errorf("%d pauses, %v", s.Pauses, s.PausedFor)
		}
	})
}

func TestStatsCountRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		s := a.Stats()
		want := []string{"configuration", "deposed", "name", "not_voter", "old_copy", "secret", "ttl"}
		var got []string
		for reason, n := range s.Refusals {
			got = append(got, reason)
			if n != 0 {
				t.Errorf("%d refusals for %s", n, reason)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		w.join("d", []string{"a", "b", "d"}, nil)
		time.Sleep(5 * time.Second)
		if s := a.Stats(); s.RefusedPeers != 1 {
			t.Errorf("%d peers are refused: %+v", s.RefusedPeers, a.Status().Refused)
		}
	})
}

func TestEachReasonOfARefusalHasAName(t *testing.T) {
	for r := vote.ReasonNone + 1; r.Valid(); r++ {
		if refusals[r] == "" {
			t.Errorf("%v has no name", r)
		}
	}
	for r, name := range endReasons {
		if name == "" {
			t.Errorf("reason %d has no name", r)
		}
	}
}

func TestStatsCountEventsThatAWatchLeavesOut(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a := w.alone()
		watch := must[*Watch](t)(a.WatchPrefix(t.Context(), ""))
		synctest.Wait()
		told := tooLong()
		a.eng.Post(false, func(vote.Now) { watch.put(told) })
		synctest.Wait()
		if got := a.Stats().Dropped.WatchEvents; got != uint64(len(told)) {
			t.Errorf("%d events were left out, want %d", got, len(told))
		}
	})
}

// The lines lost by a log handler that blocks are counted.
func TestStatsCountLostLogLines(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		free := make(chan struct{})
		m := w.join("a", []string{"a"}, func(c *Config) { c.Logger = slog.New(deaf{slog.DiscardHandler, free}) })
		for range 2000 {
			m.eng.Log().Info("line")
		}
		synctest.Wait()
		if got := m.Stats().Dropped.LogLines; got < 900 || got > 1100 {
			t.Errorf("%d lines were lost", got)
		}
		close(free)
	})
}

func TestStatsOfTheLoopNeedAnObserver(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		unlock(t, must[*Lease](t)(a.Lock(t.Context(), "k")))
		if got := a.Stats().LoopBusy; got != 0 {
			t.Errorf("busy for %v without an observer", got)
		}
	})
}
