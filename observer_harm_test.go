package lockmesh

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// blocked returns an observer that blocks indefinitely, and a function that ends the block.
func blocked() (*Observer, func()) {
	free := make(chan struct{})
	block := func(context.Context, LockGranted) { <-free }
	return &Observer{
		LockGranted: block, LeaseEnded: func(context.Context, LeaseEnded) { <-free },
		RefreshAnswered: func(RefreshAnswered) { <-free }, VoterChanged: func(VoterChanged) { <-free }, LoopWorked: func(LoopWorked) { <-free },
	}, func() { close(free) }
}

func TestABlockedObserverHarmsNoLease(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
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
		// Each lock makes two events, and one queue of events waits; renewals make further events.
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

// A LockRequested that never returns blocks its own caller, and no other caller.
func TestABlockedLockAskedDelaysItsCallerOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		free := make(chan struct{})
		m := w.join("a", []string{"a"}, func(c *Config) {
			c.Observer = &Observer{LockRequested: func(ctx context.Context, e LockRequested) context.Context {
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
				LockRequested:     func(context.Context, LockRequested) context.Context { fail("asked"); return nil },
				LockGranted:       func(context.Context, LockGranted) { fail("granted") },
				LockRefused:       func(context.Context, LockRefused) { fail("refused") },
				LeaseEnded:        func(context.Context, LeaseEnded) { fail("ended") },
				RefreshAnswered:   func(RefreshAnswered) { fail("renewed") },
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

// An observer may use the mesh like any other code.
func TestAnObserverMayCallTheMesh(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var m *Mesh
		inner := 0
		m = w.join("a", []string{"a"}, func(c *Config) {
			c.Observer = &Observer{
				LockRequested: func(ctx context.Context, e LockRequested) context.Context {
					if e.Key == "k" {
						unlock(t, must[*Lease](t)(m.Lock(ctx, "from LockRequested")))
					}
					return ctx
				},
				LockGranted: func(ctx context.Context, e LockGranted) {
					if e.Request.Key == "k" {
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

func TestAPanicOfOneObserverDoesNotKeepTheOtherFromBeingTold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var s told
		broken := &Observer{
			LockRequested:   func(context.Context, LockRequested) context.Context { panic("asked") },
			LockGranted:     func(context.Context, LockGranted) { panic("granted") },
			RefreshAnswered: func(RefreshAnswered) { panic("renewed") },
		}
		m := w.join("a", []string{"a"}, func(c *Config) { c.Observer = JoinObservers(broken, s.observer()) })
		if err := m.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		unlock(t, must[*Lease](t)(m.Lock(t.Context(), "k")))
		wantWords(t, &s, "lock k asked", "lock k granted", "lock k unlocked")
		time.Sleep(time.Minute)
		if got := take[RefreshAnswered](&s); len(got) == 0 {
			t.Error("the other isn't told of renewals")
		}
		if m.Stats().ObserverPanics < 3 {
			t.Errorf("%d panics", m.Stats().ObserverPanics)
		}
	})
}
