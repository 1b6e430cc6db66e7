package lockmesh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// told keeps what an observer was told, in order.
type told struct {
	mu     sync.Mutex
	events []any
}

func (s *told) add(e any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// take returns the events so far that are of the type E, once all goroutines wait, and forgets all.
func take[E any](s *told) (of []E) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e, ok := e.(E); ok {
			of = append(of, e)
		}
	}
	s.events = nil
	return of
}

// words describes the events about locks so far, and forgets all events. The calls come first, since
// they are told by goroutines of their own.
func (s *told) words() (all []string) {
	events := take[any](s)
	for _, e := range events {
		if e, ok := e.(LockAsked); ok {
			all = append(all, fmt.Sprintf("%s %s asked", e.Op, e.Key))
		}
	}
	for _, e := range events {
		switch e := e.(type) {
		case LockGranted:
			text := fmt.Sprintf("%s %s granted", e.Asked.Op, e.Asked.Key)
			if e.Reentry {
				text += " again"
			}
			all = append(all, text)
		case LockRefused:
			all = append(all, fmt.Sprintf("%s %s %s", e.Asked.Op, e.Asked.Key, e.Outcome))
		case LeaseEnded:
			all = append(all, fmt.Sprintf("%s %s %s", e.Asked.Op, e.Asked.Key, e.Reason))
		}
	}
	return all
}

// observer returns an observer that keeps all that it is told.
func (s *told) observer() *Observer {
	return &Observer{
		LockAsked: func(ctx context.Context, e LockAsked) context.Context {
			s.add(e)
			return ctx
		},
		LockGranted:       func(_ context.Context, e LockGranted) { s.add(e) },
		LockRefused:       func(_ context.Context, e LockRefused) { s.add(e) },
		LeaseEnded:        func(_ context.Context, e LeaseEnded) { s.add(e) },
		LeasesRenewed:     func(e LeasesRenewed) { s.add(e) },
		VoterChanged:      func(e VoterChanged) { s.add(e) },
		ElectorateChanged: func(e ElectorateChanged) { s.add(e) },
		LoopWorked:        func(e LoopWorked) { s.add(e) },
	}
}

// observe returns a change of a configuration that has an observer told.
func (s *told) observe(c *Config) { c.Observer = s.observer() }

// observed starts three voters, the first with an observer, and waits until they are ready.
func (w *wire) observed(s *told) (a, b, c *Mesh) {
	w.t.Helper()
	voters := []string{"a", "b", "c"}
	a, b, c = w.join("a", voters, s.observe), w.join("b", voters, nil), w.join("c", voters, nil)
	for _, m := range []*Mesh{a, b, c} {
		if err := m.Ready(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	return a, b, c
}

func wantWords(t *testing.T, s *told, want ...string) {
	t.Helper()
	if got := s.words(); !slices.Equal(got, want) {
		t.Errorf("told:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestAnObserverIsToldOfALockAndItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var s told
		a, b, _ := w.observed(&s)
		other := must[*Lease](t)(b.Lock(t.Context(), "k"))
		synctest.Wait()
		s.words()

		asked := time.Now()
		waiting := later(func() (*Lease, error) { return a.Lock(t.Context(), "k") })
		time.Sleep(3 * time.Second)
		granted := time.Now()
		unlock(t, other)
		l := (<-waiting).lease
		token := l.Token()
		time.Sleep(40 * time.Second)
		ended := time.Now()
		unlock(t, l)

		ask := LockAsked{Op: "lock", Key: "k", Mode: Exclusive, At: asked}
		want := []any{
			ask,
			LockGranted{Asked: ask, At: granted, Waited: 3 * time.Second, Token: token},
			LeaseEnded{Asked: ask, At: ended, Held: 40 * time.Second, Token: token, Reason: EndUnlocked, Err: ErrReleased},
		}
		var got []any
		for _, e := range take[any](&s) {
			switch e.(type) {
			case LockAsked, LockGranted, LockRefused, LeaseEnded:
				got = append(got, e)
			}
		}
		if !reflect.DeepEqual(local(got), local(want)) {
			t.Errorf("told:\n%+v\nwant:\n%+v", got, want)
		}
	})
}

// local makes times comparable, of which some are read from a clock and others computed.
func local(events []any) (texts []string) {
	for _, e := range events {
		v := reflect.New(reflect.TypeOf(e)).Elem()
		v.Set(reflect.ValueOf(e))
		strip(v)
		texts = append(texts, fmt.Sprintf("%#v", v.Interface()))
	}
	return texts
}

func strip(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Type() == reflect.TypeFor[time.Time]():
			f.Set(reflect.ValueOf(time.UnixMicro(f.Interface().(time.Time).UnixMicro())))
		case f.Kind() == reflect.Struct:
			strip(f)
		}
	}
}

// Each kind of call is told with its name, and what it has brought about.
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
		if len(got) != 2 || got[1].Asked.Mode != Permit || got[1].Asked.Permits != 2 || got[0].Slot+got[1].Slot != 3 {
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
		if err := l.Upgrade(t.Context()); err != nil { // the lease is exclusive, and nothing is requested
			t.Fatal(err)
		}
		got := take[LockGranted](&s)
		if len(got) != 2 || got[0].Token != first || got[1].Token != l.Token() || got[1].Asked.Op != "upgrade" {
			t.Errorf("%+v", got)
		}
		unlock(t, l)
		if got := take[LeaseEnded](&s); len(got) != 1 || got[0].Token != l.Token() || got[0].Asked.Op != "rlock" {
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
			_, err := a.Lock(within(t, 3*time.Second), "k")
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
			_, err := a.Lock(within(t, 5*time.Second), "k")
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
			time.Sleep(time.Second) // at one instant the names decide which upgrade is older
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

// The refreshes go out five times per TTL to all voters at once. The answer by which the second voter
// makes a majority extends the lease.
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
		got := take[LeasesRenewed](&s)
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
		for _, e := range take[LeasesRenewed](&s) {
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
		w.until("a", "the electorate stored", func(s ElectorateStatus) bool { return s.Version > 0 && s.Stored == s.Version })
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

// Two callers of one node and others of another node want the same key. The observer sees one lease at
// a time, with rising tokens.
func TestAnObserverSeesTheOrderOfAKey(t *testing.T) {
	inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
		var s told
		a, b, _ := w.observed(&s)
		take[any](&s)
		const callers, turns = 4, 10
		var all sync.WaitGroup
		for i := range callers {
			m := a
			if i == callers-1 {
				m = b
			}
			all.Go(func() {
				for range turns {
					l, err := m.Lock(t.Context(), "k")
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(10 * time.Millisecond)
					if err := l.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		asked, granted, ended, last := 0, 0, 0, uint64(0)
		for _, e := range take[any](&s) {
			switch e := e.(type) {
			case LockAsked:
				asked++
			case LockGranted:
				if granted++; granted != ended+1 || granted > asked || e.Token <= last {
					t.Errorf("grant %d after %d ends, %d calls and the token %d: %+v", granted, ended, asked, last, e)
				}
				last = e.Token
			case LeaseEnded:
				if ended++; ended != granted || e.Token != last || e.Held != 10*time.Millisecond {
					t.Errorf("end %d after %d grants: %+v", ended, granted, e)
				}
			}
		}
		if want := (callers - 1) * turns; asked != want || granted != want || ended != want {
			t.Errorf("%d asked, %d granted, %d ended; want %d", asked, granted, ended, want)
		}
	})
}

// blocked returns an observer that blocks for ever, and a function that ends this.
func blocked() (*Observer, func()) {
	free := make(chan struct{})
	block := func(context.Context, LockGranted) { <-free }
	return &Observer{
		LockGranted: block, LeaseEnded: func(context.Context, LeaseEnded) { <-free },
		LeasesRenewed: func(LeasesRenewed) { <-free }, VoterChanged: func(VoterChanged) { <-free }, LoopWorked: func(LoopWorked) { <-free },
	}, func() { close(free) }
}

func TestABlockedObserverHarmsNoLease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		o, release := blocked()
		voters := []string{"a", "b", "c"}
		a := w.join("a", voters, func(c *Config) { c.Observer = o })
		b := w.join("b", voters, nil)
		w.join("c", voters, nil)
		for _, m := range []*Mesh{a, b} {
			if err := m.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		held := must[*Lease](t)(a.Lock(t.Context(), "held"))
		const locks = 5000
		for range locks {
			unlock(t, must[*Lease](t)(a.Lock(t.Context(), "k")))
		}
		time.Sleep(10 * time.Minute)
		if err := held.Err(); err != nil {
			t.Error(err)
		}
		if _, err := b.TryLock(t.Context(), "held"); !errors.Is(err, ErrHeld) {
			t.Errorf("another node gets %v", err)
		}
		// Two events for each lock, of which a queue's worth waits; and renewals besides.
		if got := a.Stats().Dropped.ObserverEvents; got < 2*locks-4096-1 {
			t.Errorf("%d events were dropped", got)
		}
		unlock(t, held)
		began := time.Now()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("Close took %v with an observer that hangs", took)
		}
		release()
	})
}

// A LockAsked that never returns keeps its own caller, and no other.
func TestABlockedLockAskedDelaysItsCallerOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		free := make(chan struct{})
		m := w.join("a", []string{"a"}, func(c *Config) {
			c.Observer = &Observer{LockAsked: func(ctx context.Context, e LockAsked) context.Context {
				if e.Key == "slow" {
					<-free
				}
				return ctx
			}}
		})
		if err := m.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		slow := later(func() (*Lease, error) { return m.Lock(t.Context(), "slow") })
		for range 10 {
			unlock(t, must[*Lease](t)(m.Lock(t.Context(), "k")))
		}
		stillWaits(t, slow)
		if got := m.Stats().Waiting; got != 0 {
			t.Errorf("%d requests wait", got)
		}
		close(free)
		unlock(t, (<-slow).lease)
	})
}

func TestAPanickingObserverHarmsNoLease(t *testing.T) {
	inLivingBubble(t, func(t *testing.T, w *living) {
		var log bytes.Buffer
		calls := map[string]int{}
		var mu sync.Mutex
		fail := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			calls[what]++
			panic(what)
		}
		m := w.start("a", func(c *Config) {
			found(c)
			c.Voters, c.Peers = []string{"a"}, nil
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			c.Observer = &Observer{
				LockAsked:         func(context.Context, LockAsked) context.Context { fail("asked"); return nil },
				LockGranted:       func(context.Context, LockGranted) { fail("granted") },
				LockRefused:       func(context.Context, LockRefused) { fail("refused") },
				LeaseEnded:        func(context.Context, LeaseEnded) { fail("ended") },
				LeasesRenewed:     func(LeasesRenewed) { fail("renewed") },
				VoterChanged:      func(VoterChanged) { fail("voter") },
				ElectorateChanged: func(ElectorateChanged) { fail("electorate") },
				LoopWorked:        func(LoopWorked) { fail("worked") },
			}
		})
		w.ready("a")
		l := must[*Lease](t)(m.Lock(t.Context(), "k"))
		_, err := m.TryLock(t.Context(), "k")
		wantIs(t, err, ErrHeld)
		time.Sleep(10 * time.Minute)
		unlock(t, l)
		synctest.Wait()
		panics := m.Stats().ObserverPanics
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, what := range []string{"asked", "granted", "refused", "ended", "renewed", "voter", "electorate", "worked"} {
			if calls[what] == 0 {
				t.Errorf("%s wasn't called", what)
			}
			sum += calls[what]
		}
		if panics == 0 || panics > uint64(sum) {
			t.Errorf("%d panics were counted, and %d calls panicked", panics, sum)
		}
		if got := strings.Count(log.String(), "the observer panicked"); got != 1 {
			t.Errorf("the log has %d lines about panics:\n%s", got, log.String())
		}
	})
}

func TestTheContextIsCarriedToAnObserver(t *testing.T) {
	type key string
	inBubble(t, func(t *testing.T, w *wire) {
		var mu sync.Mutex
		var got []string
		note := func(ctx context.Context, what string) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprint(what, " ", ctx.Value(key("caller")), " ", ctx.Value(key("span"))))
		}
		m := w.join("a", []string{"a"}, func(c *Config) {
			c.Observer = &Observer{
				LockAsked: func(ctx context.Context, e LockAsked) context.Context {
					note(ctx, "asked")
					if e.Op == "rlock" {
						return nil
					}
					return context.WithValue(ctx, key("span"), e.Op)
				},
				LockGranted: func(ctx context.Context, _ LockGranted) { note(ctx, "granted") },
				LockRefused: func(ctx context.Context, _ LockRefused) { note(ctx, "refused") },
				LeaseEnded:  func(ctx context.Context, _ LeaseEnded) { note(ctx, "ended") },
			}
		})
		if err := m.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx := context.WithValue(t.Context(), key("caller"), "me")
		l := must[*Lease](t)(m.Lock(ctx, "k"))
		inner := l.Context()
		if inner.Value(key("caller")) != "me" || inner.Value(key("span")) != nil {
			t.Errorf("the lease's context has %v and %v", inner.Value(key("caller")), inner.Value(key("span")))
		}
		_, err := m.TryLock(ctx, "k")
		wantIs(t, err, ErrHeld)
		unlock(t, must[*Lease](t)(m.RLock(inner, "k")))
		unlock(t, l)
		if inner.Err() == nil {
			t.Error("the lease's context goes on")
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(got)
		want := []string{
			"asked me <nil>", "asked me <nil>", "asked me <nil>", "ended me lock", "granted me <nil>", "granted me lock", "refused me trylock",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}

// An observer may use the mesh as any other code may.
func TestAnObserverMayCallTheMesh(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var m *Mesh
		inner := 0
		m = w.join("a", []string{"a"}, func(c *Config) {
			c.Observer = &Observer{
				LockAsked: func(ctx context.Context, e LockAsked) context.Context {
					if e.Key == "k" {
						unlock(t, must[*Lease](t)(m.Lock(ctx, "from LockAsked")))
					}
					return ctx
				},
				LockGranted: func(ctx context.Context, e LockGranted) {
					if e.Asked.Key == "k" {
						unlock(t, must[*Lease](t)(m.Lock(ctx, "from LockGranted")))
						inner = m.Stats().Leases
					}
				},
			}
		})
		if err := m.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := must[*Lease](t)(m.Lock(t.Context(), "k"))
		synctest.Wait()
		if inner != 1 {
			t.Errorf("%d leases were held", inner)
		}
		unlock(t, l)
	})
}

func TestAnObserverMayCloseTheMesh(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var m *Mesh
		closed := make(chan error, 1)
		m = w.join("a", []string{"a"}, func(c *Config) {
			c.Observer = &Observer{LockGranted: func(context.Context, LockGranted) { closed <- m.Close() }}
		})
		if err := m.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := must[*Lease](t)(m.Lock(t.Context(), "k"))
		if err := <-closed; err != nil {
			t.Error(err)
		}
		wantIs(t, l.Err(), ErrClosed)
	})
}

func TestAnObserverIsToldNothingAfterClose(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var s told
		a, _, _ := w.observed(&s)
		must[*Lease](t)(a.Lock(t.Context(), "k"))
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		wantWords(t, &s, "lock k asked", "lock k granted", "lock k closed")
		_, err := a.Lock(t.Context(), "k")
		wantIs(t, err, ErrClosed)
		time.Sleep(time.Minute)
		if got := take[any](&s); len(got) > 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestAnObserverWithoutFunctions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		m := w.join("a", []string{"a"}, func(c *Config) { c.Observer = &Observer{} })
		if err := m.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := must[*Lease](t)(m.Lock(t.Context(), "k"))
		_, err := m.TryLock(t.Context(), "k")
		wantIs(t, err, ErrHeld)
		time.Sleep(time.Minute)
		unlock(t, l)
	})
}

func TestJoinedObservers(t *testing.T) {
	if JoinObservers() != nil || JoinObservers(nil, nil) != nil {
		t.Error("no observer is joined to one")
	}
	for name, third := range map[string]*Observer{
		"nil":               nil,
		"without functions": {},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				type key string
				var s, other told
				first := s.observer()
				first.LockAsked = func(ctx context.Context, e LockAsked) context.Context {
					s.add(e)
					return context.WithValue(ctx, key("first"), true)
				}
				second := other.observer()
				second.LockAsked = func(ctx context.Context, e LockAsked) context.Context {
					if ctx.Value(key("first")) == nil {
						t.Error("the second isn't passed the first one's context")
					}
					other.add(e)
					return nil
				}
				second.LockGranted = func(ctx context.Context, e LockGranted) {
					if ctx.Value(key("first")) == nil {
						t.Error("the context of the first is lost")
					}
					other.add(e)
				}
				m := w.join("a", []string{"a"}, func(c *Config) { c.Observer = JoinObservers(third, first, third, second) })
				if err := m.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				unlock(t, must[*Lease](t)(m.Lock(t.Context(), "k")))
				_, _ = m.TryLock(within(t, -1), "k")
				time.Sleep(time.Minute)
				synctest.Wait()
				byAsking := func(a, b any) int { // LockAsked is called by other goroutines
					rank := func(e any) int {
						if _, is := e.(LockAsked); is {
							return 0
						}
						return 1
					}
					return rank(a) - rank(b)
				}
				slices.SortStableFunc(s.events, byAsking)
				slices.SortStableFunc(other.events, byAsking)
				if len(s.events) < 10 || !reflect.DeepEqual(s.events, other.events) {
					t.Errorf("one was told\n%+v\nand the other\n%+v", s.events, other.events)
				}
			})
		})
	}
}

func TestAPanicOfOneObserverDoesNotKeepTheOtherFromBeingTold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var s told
		broken := &Observer{
			LockAsked:     func(context.Context, LockAsked) context.Context { panic("asked") },
			LockGranted:   func(context.Context, LockGranted) { panic("granted") },
			LeasesRenewed: func(LeasesRenewed) { panic("renewed") },
		}
		m := w.join("a", []string{"a"}, func(c *Config) { c.Observer = JoinObservers(broken, s.observer()) })
		if err := m.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		unlock(t, must[*Lease](t)(m.Lock(t.Context(), "k")))
		wantWords(t, &s, "lock k asked", "lock k granted", "lock k unlocked")
		time.Sleep(time.Minute)
		if got := take[LeasesRenewed](&s); len(got) == 0 {
			t.Error("the other isn't told of renewals")
		}
		if m.Stats().ObserverPanics < 3 {
			t.Errorf("%d panics", m.Stats().ObserverPanics)
		}
	})
}
