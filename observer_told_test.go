package lockmesh

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// An observer receives each kind of call with its name, and with its outcome.
func TestAnObserverIsToldOfEachKindOfLock(t *testing.T) {
	for name, row := range map[string]struct {
		do   func(t *testing.T, m *Mesh)
		want []string
	}{
		"Lock": {
			func(t *testing.T, m *Mesh) { unlock(t, must[*Lease](t)(m.Lock(t.Context(), "k"))) },
			[]string{"lock k asked", "lock k granted", "lock k unlocked"},
		},
		"TryLock": {
			func(t *testing.T, m *Mesh) { unlock(t, must[*Lease](t)(m.TryLock(t.Context(), "k"))) },
			[]string{"trylock k asked", "trylock k granted", "trylock k unlocked"},
		},
		"RLock": {
			func(t *testing.T, m *Mesh) { unlock(t, must[*Lease](t)(m.RLock(t.Context(), "k"))) },
			[]string{"rlock k asked", "rlock k granted", "rlock k unlocked"},
		},
		"TryRLock": {
			func(t *testing.T, m *Mesh) { unlock(t, must[*Lease](t)(m.TryRLock(t.Context(), "k"))) },
			[]string{"tryrlock k asked", "tryrlock k granted", "tryrlock k unlocked"},
		},
		"Acquire": {
			func(t *testing.T, m *Mesh) { unlock(t, must[*Lease](t)(m.Semaphore("k", 3).Acquire(t.Context()))) },
			[]string{"acquire k asked", "acquire k granted", "acquire k unlocked"},
		},
		"TryAcquire": {
			func(t *testing.T, m *Mesh) { unlock(t, must[*Lease](t)(m.Semaphore("k", 3).TryAcquire(t.Context()))) },
			[]string{"tryacquire k asked", "tryacquire k granted", "tryacquire k unlocked"},
		},
		"Do": {
			func(t *testing.T, m *Mesh) {
				if err := m.Do(t.Context(), "k", func(context.Context, *Lease) error { return nil }); err != nil {
					t.Error(err)
				}
			},
			[]string{"lock k asked", "lock k granted", "lock k unlocked"},
		},
		"LockAll": {
			func(t *testing.T, m *Mesh) {
				if err := must[*Leases](t)(m.LockAll(t.Context(), "y", "x")).Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			},
			[]string{
				"lockall x asked", "lockall y asked", "lockall x granted", "lockall y granted", "lockall y unlocked", "lockall x unlocked",
			},
		},
		"Campaign": {
			func(t *testing.T, m *Mesh) {
				if err := must[*Leadership](t)(m.Election("k").Campaign(t.Context(), nil)).Resign(t.Context()); err != nil {
					t.Error(err)
				}
			},
			[]string{"campaign k asked", "campaign k granted", "campaign k unlocked"},
		},
		"Upgrade": {
			func(t *testing.T, m *Mesh) {
				l := must[*Lease](t)(m.RLock(t.Context(), "k"))
				if err := l.Upgrade(t.Context()); err != nil {
					t.Error(err)
				}
				unlock(t, l)
			},
			[]string{"rlock k asked", "upgrade k asked", "rlock k granted", "upgrade k granted", "rlock k unlocked"},
		},
		"re-entry": {
			func(t *testing.T, m *Mesh) {
				l := must[*Lease](t)(m.Lock(t.Context(), "k"))
				unlock(t, must[*Lease](t)(m.RLock(l.Context(), "k")))
				unlock(t, l)
			},
			[]string{"lock k asked", "rlock k asked", "lock k granted", "rlock k granted again", "lock k unlocked"},
		},
		"a reader that outlives its writer": {
			func(t *testing.T, m *Mesh) {
				l := must[*Lease](t)(m.Lock(t.Context(), "k"))
				reader := must[*Lease](t)(m.RLock(l.Context(), "k"))
				unlock(t, l)
				time.Sleep(time.Second)
				unlock(t, must[*Lease](t)(m.RLock(t.Context(), "k")))
				unlock(t, reader)
			},
			[]string{
				"lock k asked", "rlock k asked", "rlock k asked",
				"lock k granted", "rlock k granted again", "rlock k granted", "rlock k unlocked", "lock k unlocked",
			},
		},
		"arguments that can't be used": {
			func(t *testing.T, m *Mesh) {
				_, err := m.Lock(t.Context(), "")
				wantIs(t, err, ErrKey)
				_, err = m.Lock(t.Context(), "k", WithTTL(-1))
				wantIs(t, err, ErrOption)
				_, err = m.Semaphore("k", 0).Acquire(t.Context())
				wantIs(t, err, ErrPermits)
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				var s told
				a, _, _ := w.observed(&s)
				row.do(t, a)
				wantWords(t, &s, row.want...)
			})
		})
	}
}

func TestAnObserverIsToldOfAPermit(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var s told
		a, _, _ := w.observed(&s)
		s.words()
		must[*Lease](t)(a.Semaphore("k", 2).Acquire(t.Context()))
		must[*Lease](t)(a.Semaphore("k", 2).Acquire(t.Context()))
		got := take[LockGranted](&s)
		if len(got) != 2 || got[1].Request.Mode != ModePermit || got[1].Request.Permits != 2 || got[0].Slot+got[1].Slot != 3 {
			t.Errorf("%+v", got)
		}
	})
}

func TestAnObserverIsToldOfTheTokenOfAnUpgrade(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var s told
		a, _, _ := w.observed(&s)
		l := must[*Lease](t)(a.RLock(t.Context(), "k"))
		first := l.Token()
		if err := l.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Upgrade(t.Context()); err != nil { // no request: the lease is exclusive
			t.Fatal(err)
		}
		got := take[LockGranted](&s)
		if len(got) != 2 || got[0].Token != first || got[1].Token != l.Token() || got[1].Request.Op != "upgrade" {
			t.Errorf("%+v", got)
		}
		unlock(t, l)
		if got := take[LeaseEnded](&s); len(got) != 1 || got[0].Token != l.Token() || got[0].Request.Op != "rlock" {
			t.Errorf("%+v", got)
		}
	})
}

func TestAnObserverIsToldWhyALockIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		do     func(t *testing.T, w *wire, a, b *Mesh) error
		want   Outcome
		waited time.Duration
	}{
		"held": {func(t *testing.T, _ *wire, a, b *Mesh) error {
			must[*Lease](t)(b.Lock(t.Context(), "k"))
			_, err := a.TryLock(t.Context(), "k")
			return err
		}, OutcomeHeld, 0},
		"the caller's time is over": {func(t *testing.T, _ *wire, a, b *Mesh) error {
			must[*Lease](t)(b.Lock(t.Context(), "k"))
			_, err := a.Lock(testwait.Within(t, 3*time.Second), "k")
			return err
		}, OutcomeHeld, 3 * time.Second},
		"WithWait": {func(t *testing.T, _ *wire, a, b *Mesh) error {
			must[*Lease](t)(b.Lock(t.Context(), "k"))
			_, err := a.Lock(t.Context(), "k", WithWait(2*time.Second))
			return err
		}, OutcomeHeld, 2 * time.Second},
		"the context had ended": {func(t *testing.T, _ *wire, a, _ *Mesh) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := a.Lock(ctx, "k")
			return err
		}, OutcomeNoQuorum, 0},
		"no quorum": {func(t *testing.T, w *wire, a, _ *Mesh) error {
			w.stall("b", true)
			w.stall("c", true)
			_, err := a.Lock(testwait.Within(t, 5*time.Second), "k")
			return err
		}, OutcomeNoQuorum, 5 * time.Second},
		"other permits": {func(t *testing.T, _ *wire, a, b *Mesh) error {
			must[*Lease](t)(b.Semaphore("k", 2).Acquire(t.Context()))
			_, err := a.Semaphore("k", 3).Acquire(t.Context())
			return err
		}, OutcomePermits, 0},
		"a writer within a reader": {func(t *testing.T, _ *wire, a, _ *Mesh) error {
			l := must[*Lease](t)(a.RLock(t.Context(), "k"))
			_, err := a.Lock(l.Context(), "k")
			return err
		}, OutcomeClash, 0},
		"two upgrades": {func(t *testing.T, _ *wire, a, b *Mesh) error {
			_, mine, _ := upgrading(t, b, a)
			time.Sleep(time.Second) // else the names would decide the order of the upgrades
			return mine.Upgrade(t.Context())
		}, OutcomeClash, 0},
		"draining": {func(t *testing.T, _ *wire, a, _ *Mesh) error {
			if err := a.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			_, err := a.Lock(t.Context(), "k")
			return err
		}, OutcomeClosed, 0},
		"closed while waiting": {func(t *testing.T, _ *wire, a, b *Mesh) error {
			must[*Lease](t)(b.Lock(t.Context(), "k"))
			waiting := later(func() (*Lease, error) { return a.Lock(t.Context(), "k") })
			time.Sleep(time.Second)
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			return (<-waiting).err
		}, OutcomeClosed, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				var s told
				a, b, _ := w.observed(&s)
				err := row.do(t, w, a, b)
				var got []LockRefused
				for _, e := range take[any](&s) {
					if e, ok := e.(LockRefused); ok {
						got = append(got, e)
					}
				}
				if len(got) != 1 || got[0].Outcome != row.want || got[0].Waited != row.waited || got[0].Err != err || err == nil {
					t.Errorf("told %+v, want %s after %v; the error is %v", got, row.want, row.waited, err)
				}
			})
		})
	}
}

func TestAnObserverIsToldWhyALeaseEnds(t *testing.T) {
	for name, row := range map[string]struct {
		opts []Option
		end  func(t *testing.T, w *wire, a, b *Mesh, l *Lease)
		want EndReason
		held time.Duration // negative: any
		err  error
	}{
		"unlocked": {nil, func(t *testing.T, _ *wire, _, _ *Mesh, l *Lease) { unlock(t, l) }, EndUnlocked, 0, ErrReleased},
		"unlocked, and the key is kept": {
			[]Option{WithMinHold(5 * time.Second)},
			func(t *testing.T, _ *wire, _, _ *Mesh, l *Lease) { unlock(t, l) }, EndUnlocked, 0, ErrReleased,
		},
		"expired at the voters": {
			[]Option{WithTTL(2 * time.Second), WithoutRenewal()},
			func(*testing.T, *wire, *Mesh, *Mesh, *Lease) { time.Sleep(3 * time.Second) }, EndExpired, -1, ErrLost,
		},
		"expired at the node": {
			[]Option{WithTTL(30 * time.Second), WithoutRenewal()},
			func(*testing.T, *wire, *Mesh, *Mesh, *Lease) { time.Sleep(time.Minute) }, EndExpired, 30 * time.Second, ErrLost,
		},
		"lost": {nil, func(_ *testing.T, w *wire, _, _ *Mesh, _ *Lease) {
			w.stall("a", true)
			time.Sleep(DefaultMaxTTL)
		}, EndLost, -1, ErrLost},
		"lost while the process was stopped": {nil, func(t *testing.T, w *wire, a, _ *Mesh, l *Lease) {
			w.processes[a].Pause()
			time.Sleep(time.Minute)
			w.processes[a].Resume()
			wantIs(t, l.Err(), ErrLost)
		}, EndLost, -1, ErrLost},
		"evicted": {nil, func(t *testing.T, _ *wire, _, b *Mesh, l *Lease) {
			time.Sleep(time.Second)
			if err := b.Evict(t.Context(), "k", l.Token()); err != nil {
				t.Error(err)
			}
		}, EndEvicted, time.Second, ErrEvicted},
		"left": {nil, func(t *testing.T, _ *wire, a, _ *Mesh, _ *Lease) {
			if err := a.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		}, EndReleased, 0, ErrReleased},
		"stopped": {nil, func(t *testing.T, _ *wire, a, _ *Mesh, _ *Lease) {
			if err := a.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}, EndReleased, 0, ErrReleased},
		"closed": {nil, func(t *testing.T, _ *wire, a, _ *Mesh, _ *Lease) {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}, EndClosed, 0, ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				var s told
				a, b, _ := w.observed(&s)
				l := must[*Lease](t)(a.Lock(t.Context(), "k", row.opts...))
				row.end(t, w, a, b, l)
				got := take[LeaseEnded](&s)
				if len(got) != 1 || got[0].Reason != row.want || got[0].Token != l.Token() || row.held >= 0 && got[0].Held != row.held {
					t.Fatalf("told %+v, want %s after %v", got, row.want, row.held)
				}
				wantIs(t, got[0].Err, row.err)
				wantIs(t, l.Err(), row.err)
				want := map[EndReason]uint64{}
				for _, r := range endReasons {
					want[r] = 0
				}
				want[row.want] = 1
				if got := a.Stats().LeasesEnded; !reflect.DeepEqual(got, want) {
					t.Errorf("counted %v, want %v", got, want)
				}
			})
		})
	}
}

// Refreshes go out five times per TTL, to all voters at once. The answer of the second voter
// completes a majority, and extends the lease.
func TestAnObserverIsToldOfTheMarginOfRenewals(t *testing.T) {
	const latency = 20 * time.Millisecond
	inBubbleOver(t, latency, func(t *testing.T, w *wire) {
		var s told
		a, _, _ := w.observed(&s)
		must[*Lease](t)(a.Lock(t.Context(), "x"))
		must[*Lease](t)(a.Lock(t.Context(), "y"))
		time.Sleep(time.Minute)
		take[any](&s)
		time.Sleep(DefaultMaxTTL / 5)
		got := take[RefreshAnswered](&s)
		extended := 0
		for _, e := range got {
			trip := 2 * latency
			if e.Voter == "a" {
				trip = 0
			}
			if e.RoundTrip != trip {
				t.Errorf("%+v: want a round trip of %v", e, trip)
			}
			switch {
			case e.Leases == 0 && e.Left == 0 && e.TTL == 0:
			case e.Leases == 2 && e.Voter != "a" && e.TTL == DefaultMaxTTL:
				extended++
				if ratio := e.Left.Seconds() / e.TTL.Seconds(); ratio < 0.75 || ratio > 0.8 {
					t.Errorf("%+v: the margin is %.3f", e, ratio)
				}
			default:
				t.Errorf("%+v", e)
			}
		}
		if len(got) != 3 || extended != 1 {
			t.Errorf("%+v", got)
		}

		// The other voters answer late, and the margin shrinks.
		w.stall("a", true)
		time.Sleep(2500 * time.Millisecond)
		take[any](&s)
		w.stall("a", false)
		time.Sleep(time.Second)
		least := 1.0
		for _, e := range take[RefreshAnswered](&s) {
			if e.Leases > 0 {
				least = min(least, e.Left.Seconds()/e.TTL.Seconds())
			}
		}
		if least > 0.75 || least < 0.4 {
			t.Errorf("after an interruption of 2.5 s the least margin is %.3f", least)
		}
	})
}

func TestAnObserverIsToldOfVoters(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var s told
		w.observed(&s)
		states := map[string]VoterState{}
		follow := func() (changes []VoterChanged) {
			changes = take[VoterChanged](&s)
			for _, e := range changes {
				if e.From != states[e.Voter] || e.From == e.To {
					t.Errorf("%+v, and the state was %q", e, states[e.Voter])
				}
				states[e.Voter] = e.To
			}
			return changes
		}
		time.Sleep(time.Second)
		follow()
		want := map[string]VoterState{"a": VoterReachable, "b": VoterReachable, "c": VoterReachable}
		if !reflect.DeepEqual(states, want) {
			t.Errorf("%v", states)
		}
		w.stall("b", true)
		time.Sleep(4 * time.Second)
		got := follow()
		if len(got) != 1 || got[0].Voter != "b" || got[0].To != VoterSilent || !contains(got[0].Text, "b silent (no answer for") {
			t.Errorf("%+v", got)
		}
		w.stall("b", false)
		time.Sleep(DefaultMaxTTL)
		if follow(); !reflect.DeepEqual(states, want) {
			t.Errorf("%v", states)
		}
	})
}

func TestAnObserverIsToldOfTheElectorate(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		var s told
		w.start("a", func(c *Config) { found(c); s.observe(c) })
		w.start("b", found)
		w.start("c", found)
		w.ready("a")
		w.until("a", "the electorate stored", func(s ElectorateStatus) bool { return s.Version > 0 && s.StoredVersion == s.Version })
		got := take[ElectorateChanged](&s)
		if len(got) != 1 || got[0].Electorate.Version != 1 || !slices.Equal(got[0].Electorate.names(), []string{"a", "b", "c"}) || got[0].Electorate.Joint {
			t.Errorf("%+v", got)
		}
		if e := w.nodes["a"].Stats(); e.ElectorateChanges != 1 || e.JointFor != 0 {
			t.Errorf("%+v", e)
		}

		w.start("d", nil)
		w.crash("c")
		joint := w.until("a", "a change", func(s ElectorateStatus) bool { return s.Joint })
		time.Sleep(3 * time.Second)
		if st := w.nodes["a"].Stats(); st.JointFor != 3*time.Second || !st.Electorate.Joint {
			t.Errorf("joint for %v", st.JointFor)
		}
		w.untilVoters("a", "a", "b", "d")
		time.Sleep(time.Second)
		synctest.Wait()
		s.mu.Lock()
		var versions []uint64
		var jointOnes int
		states := map[string]VoterState{}
		for _, e := range s.events {
			switch e := e.(type) {
			case ElectorateChanged:
				versions = append(versions, e.Electorate.Version)
				if e.Electorate.Joint {
					jointOnes++
				}
			case VoterChanged:
				if e.To == "" {
					delete(states, e.Voter)
				} else {
					states[e.Voter] = e.To
				}
			}
		}
		s.events = nil
		s.mu.Unlock()
		if !slices.IsSorted(versions) || len(versions) < 2 || versions[0] != joint.Version || jointOnes == 0 {
			t.Errorf("told of the versions %v, of which %d are joint", versions, jointOnes)
		}
		if _, still := states["c"]; still || states["d"] == "" {
			t.Errorf("the voters are %v", states)
		}
		if st := w.nodes["a"].Stats(); st.ElectorateChanges != 1+uint64(len(versions)) || st.JointFor != 0 {
			t.Errorf("%d changes, joint for %v", st.ElectorateChanges, st.JointFor)
		}

		w.crash("b")
		w.crash("d")
		w.until("a", "the loss", func(s ElectorateStatus) bool { return s.Lost != "" })
		time.Sleep(2 * time.Second)
		lost := take[ElectorateChanged](&s)
		if len(lost) == 0 || lost[len(lost)-1].Electorate.Lost == "" || lost[len(lost)-1].Electorate.Ready {
			t.Errorf("%+v", lost)
		}
	})
}

func TestAnObserverIsToldOfTheLoopsWork(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var s told
		a, _, _ := w.observed(&s)
		time.Sleep(time.Second)
		take[any](&s)
		for range 100 {
			unlock(t, must[*Lease](t)(a.Lock(t.Context(), "k")))
		}
		time.Sleep(DefaultMaxTTL)
		got := take[LoopWorked](&s)
		rounds := 0
		for _, e := range got {
			rounds += e.Rounds
			if e.Rounds == 0 || e.Busy != 0 || e.Longest != 0 { // time stands still in a bubble
				t.Errorf("%+v", e)
			}
		}
		if rounds < 100 || len(got) > 110 {
			t.Errorf("%d rounds in %d events", rounds, len(got))
		}
	})
}
