package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
	"github.com/lockmesh/lockmesh/internal/testwait"
)

// askers returns the calls that ask for a key with a bounded wait.
func askers(wait time.Duration) map[string]func(t *testing.T, m *Mesh, key string) error {
	timed := func(f func(ctx context.Context, m *Mesh, key string) error) func(*testing.T, *Mesh, string) error {
		return func(t *testing.T, m *Mesh, key string) error {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			return f(ctx, m, key)
		}
	}
	lock := func(l *Lease, err error) error {
		if err == nil {
			return errors.Join(errors.New("granted"), l.Unlock(context.Background()))
		}
		return err
	}
	return map[string]func(*testing.T, *Mesh, string) error{
		"Lock":    timed(func(ctx context.Context, m *Mesh, key string) error { return lock(m.Lock(ctx, key)) }),
		"TryLock": timed(func(ctx context.Context, m *Mesh, key string) error { return lock(m.TryLock(ctx, key)) }),
		"RLock":   timed(func(ctx context.Context, m *Mesh, key string) error { return lock(m.RLock(ctx, key)) }),
		"Acquire": timed(func(ctx context.Context, m *Mesh, key string) error { return lock(m.Semaphore(key, 1).Acquire(ctx)) }),
		"LockAll": timed(func(ctx context.Context, m *Mesh, key string) error { _, err := m.LockAll(ctx, key); return err }),
		"Campaign": timed(func(ctx context.Context, m *Mesh, key string) error {
			_, err := m.Election(key).Campaign(ctx, nil)
			return err
		}),
		"WithWait": func(t *testing.T, m *Mesh, key string) error { return lock(m.Lock(t.Context(), key, WithWait(wait))) },
		"cancel": func(t *testing.T, m *Mesh, key string) error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(max(wait, 100*time.Millisecond), cancel)
			return lock(m.Lock(ctx, key))
		},
	}
}

// Two of three voters stop. These keys were never locked, so no call may report a holder: neither
// on a voter's node nor on another node, however long the call waits, and whenever the call began.
func TestAKeyThatWasNeverLockedHasNoHolder(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for _, wait := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 4 * time.Second} {
		for _, since := range []time.Duration{0, 700 * time.Millisecond, 2500 * time.Millisecond} {
			t.Run(fmt.Sprintf("wait %v, stopped for %v", wait, since), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *wire) {
					a, _, _ := w.three()
					client := w.client()
					w.stall("b", true)
					w.stall("c", true)
					time.Sleep(since)
					n := 0
					for name, ask := range askers(wait) {
						for _, m := range []*Mesh{a, client} {
							go func() { // another call on the same node, for the local queue
								_, _ = m.Lock(t.Context(), fmt.Sprint(name, m.Name()))
							}()
							err := ask(t, m, fmt.Sprint(name, m.Name()))
							wantIs(t, err, ErrNoQuorum)
							wantNot(t, err, ErrHeld)
							n++
							if n == 1 && wait == 2*time.Second && since == 0 && !contains(err.Error(), "b", "c", "answer", "2s") {
								t.Error(err)
							}
						}
					}
				})
			})
		}
	}
}

// The key is held, and a majority of the voters answers: every call fails with ErrHeld, if the call
// waits for a few milliseconds or more.
func TestALockedKeyHasAHolder(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	for _, wait := range []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second} {
		t.Run(wait.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				client := w.client()
				for round := range 10 {
					for name, ask := range askers(wait) {
						key := fmt.Sprint(name, round)
						take := func() (*Lease, error) { return b.Lock(t.Context(), key) }
						if name == "Acquire" {
							take = b.Semaphore(key, 1).acquireOne
						}
						l := must[*Lease](t)(take())
						for _, m := range []*Mesh{a, b, client} {
							err := ask(t, m, key)
							wantIs(t, err, ErrHeld)
							wantNot(t, err, ErrNoQuorum)
						}
						unlock(t, l)
					}
				}
			})
		})
	}
}

func (s *Semaphore) acquireOne() (*Lease, error) { return s.Acquire(context.Background()) }

// Ready, Status, errors and queries agree on the voters that answer, well before half a TTL.
func TestAVoterThatFallsSilentIsToldOf(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		if err := a.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if e := a.Status().Electorate; !e.Ready || e.Counting != 3 {
			t.Fatalf("%v", e)
		}
		w.stall("b", true)
		w.stall("c", true)
		began := time.Now()
		for a.Status().Electorate.Ready {
			time.Sleep(10 * time.Millisecond)
			if time.Since(began) > DefaultMaxTTL {
				t.Fatal("it is still ready")
			}
		}
		if took := time.Since(began); took < DefaultMaxTTL/10 || took > DefaultMaxTTL*32/100 {
			t.Errorf("it took %v to notice", took)
		}
		e := a.Status().Electorate
		if e.Counting != 1 || e.Voters[1].State != VoterSilent || !contains(e.Voters[1].Text, "b silent (no answer for 3") {
			t.Errorf("%+v", e)
		}
		wantIs(t, a.Ready(testwait.Within(t, 100*time.Millisecond)), ErrNoQuorum)
		_, err := a.Lock(testwait.Within(t, 100*time.Millisecond), "k")
		wantIs(t, err, ErrNoQuorum)
		if !contains(err.Error(), "1 of 3 voters counts", "b silent (no answer for 3", "c silent") {
			t.Error(err)
		}
		_, err = a.Inspect(testwait.Within(t, 100*time.Millisecond), "k")
		wantIs(t, err, ErrNoQuorum, context.DeadlineExceeded)
		if !contains(err.Error(), "1 of 3 voters have answered", "b silent (no answer for 3", "c silent") {
			t.Error(err)
		}
		w.stall("b", false)
		w.stall("c", false)
		if err := a.Ready(testwait.Within(t, DefaultMaxTTL)); err != nil {
			t.Fatal(err)
		}
		unlock(t, must[*Lease](t)(b.Lock(testwait.Within(t, DefaultMaxTTL), "k")))
	})
}
