package lockmesh

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// A leader that is cut off loses its leadership. After the cut the node campaigns by itself, and
// leads again.
func TestLeadLeadsAgainAfterALoss(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		led := make(chan error, 10)
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() {
			over <- a.Lead(ctx, "e", func(ctx context.Context) error {
				led <- nil
				<-ctx.Done()
				led <- context.Cause(ctx)
				return nil
			})
		}()
		<-led
		w.stall("a", true)
		wantIs(t, <-led, ErrLost)
		l := must[*Lease](t)(b.Lock(t.Context(), "e"))
		w.stall("a", false)
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-led // a leads again
		cancel()
		<-led
		err := <-over
		wantIs(t, err, context.Canceled)
		wantNot(t, err, ErrLost)
		must[*Lease](t)(b.TryLock(t.Context(), "e"))
	})
}

// The function of Lead finds the token of its term by its context, as do the functions that it
// calls; a context of another origin, or of another key, has none.
func TestTheFunctionOfLeadKnowsItsToken(t *testing.T) {
	type anyKey struct{}
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		for turn := range 3 {
			mesh := []*Mesh{a, b, a}[turn]
			err := mesh.LeadOnce(t.Context(), "e", func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(context.WithValue(ctx, anyKey{}, "a value"), time.Minute)
				defer cancel()
				lease := mesh.LeaseOf(ctx, "e")
				if lease == nil {
					t.Fatal("the context carries no lease")
				}
				leader := must[Leader](t)(b.Election("e").Leader(t.Context()))
				if leader.Token == 0 || lease.Token() != leader.Token || lease.Err() != nil {
					t.Errorf("turn %d: the function's token is %d (%v), and others see %+v", turn, lease.Token(), lease.Err(), leader)
				}
				other := b
				if mesh == b {
					other = a
				}
				for _, l := range []*Lease{mesh.LeaseOf(ctx, "f"), mesh.LeaseOf(t.Context(), "e"), other.LeaseOf(ctx, "e")} {
					if l != nil {
						t.Errorf("turn %d: another key, context or node has the lease %v", turn, l)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		leases := must[*Leases](t)(a.LockAll(t.Context(), "k", "l"))
		if l := a.LeaseOf(leases.Context(), "l"); l == nil || l.Key() != "l" {
			t.Errorf("the context of several leases has %v", l)
		}
	})
}

// A function that fails at once costs turns, with growing pauses in between, and doesn't keep other
// nodes from leading.
func TestLeadCallsAgainAFunctionThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		var log bytes.Buffer
		voters := []string{"a", "b", "c"}
		a := w.join("a", voters, func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		b := w.join("b", voters, nil)
		w.join("c", voters, nil)
		if err := errors.Join(a.Ready(t.Context()), b.Ready(t.Context())); err != nil {
			t.Fatal(err)
		}
		errSlow := errors.New("the database is slow")
		var at []time.Time
		turns := 0
		err := a.Lead(testwait.Within(t, 10*time.Minute), "e", func(context.Context) error {
			if turns++; turns == 20 { // a long turn; the pauses begin short again
				time.Sleep(time.Minute)
			}
			at = append(at, time.Now())
			return errSlow
		})
		wantIs(t, err, context.DeadlineExceeded)
		for i := 1; i < len(at); i++ {
			pause := at[i].Sub(at[i-1])
			least, most := leadPauseMax/2, leadPauseMax+time.Second
			switch {
			case i == 1, i == 20:
				least, most = leadPauseMin/2, leadPauseMin+time.Second
			case i == 19:
				continue // with the long turn
			case i < 8 || i > 20 && i < 28:
				least = leadPauseMin / 2
			}
			if pause < least || pause > most {
				t.Errorf("turn %d came %v after the one before; want %v to %v", i+1, pause, least, most)
			}
		}
		if n := len(at); n < 60 || n > 110 {
			t.Errorf("%d turns in ten minutes", n)
		}
		if err := a.Close(); err != nil { // writes the log to its end
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), `"the leader's function failed; this node campaigns again"`); n != len(at) && n != len(at)-1 {
			t.Errorf("%d turns failed, and the log tells of %d:\n%s", len(at), n, log.String())
		}
		must[*Lease](t)(b.Lock(testwait.Within(t, time.Minute), "e"))
	})
}

func TestLeadEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		never := func(context.Context) error { t.Error("called"); return nil }

		wantIs(t, a.Lead(t.Context(), "", never), ErrKey)
		wantIs(t, a.Lead(t.Context(), "e", never, WithTTL(-1)), ErrOption)
		reader := must[*Lease](t)(a.RLock(t.Context(), "read"))
		wantIs(t, a.Lead(reader.Context(), "read", never), ErrClash)

		ctx, cancel := context.WithCancel(t.Context())
		errFlush := errors.New("cannot flush")
		err := a.Lead(ctx, "e", func(context.Context) error { cancel(); return errFlush })
		wantIs(t, err, context.Canceled, errFlush)
		if !contains(err.Error(), `lead "e"`) {
			t.Error(err)
		}

		// A function that returns the context's error, as is usual, doesn't hide how the turn
		// ended.
		ctx, cancel = context.WithCancel(t.Context())
		err = a.Lead(ctx, "e", func(turn context.Context) error {
			leader := must[Leader](t)(b.Election("e").Leader(t.Context()))
			if err := b.Evict(t.Context(), "e", leader.Token); err != nil {
				t.Error(err)
			}
			cancel()
			<-turn.Done()
			return ctx.Err()
		})
		wantIs(t, err, context.Canceled, ErrLost, ErrEvicted)

		ctx, cancel = context.WithCancel(t.Context())
		err = a.Lead(ctx, "e", func(context.Context) error { cancel(); return ctx.Err() })
		if wantIs(t, err, context.Canceled); strings.Count(err.Error(), "canceled") != 1 {
			t.Errorf("%v says twice that it was cancelled", err)
		}

		l := must[*Lease](t)(b.Lock(t.Context(), "e"))
		for _, end := range []func(*Mesh) error{(*Mesh).Close, func(m *Mesh) error { return m.Leave(t.Context()) }} {
			m := map[bool]*Mesh{true: a, false: c}[!a.eng.IsClosing()]
			over := make(chan error, 1)
			go func() { over <- m.Lead(t.Context(), "e", never) }()
			synctest.Wait()
			if err := end(m); err != nil {
				t.Fatal(err)
			}
			wantIs(t, <-over, ErrClosed)
		}
		_ = l
	})
}

// A drained node takes no locks, so no further campaign can succeed: Lead ends, rather than
// campaign and fill the log for the rest of the process.
func TestLeadEndsOnADrainedNode(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		log := &lockedBuffer{}
		voters := []string{"a", "b", "c"}
		a := w.join("a", voters, func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(log, nil)) })
		b, c := w.join("b", voters, nil), w.join("c", voters, nil)
		for _, m := range []*Mesh{a, b, c} {
			if err := m.Settled(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		never := func(context.Context) error { t.Error("called"); return nil }
		l := must[*Lease](t)(b.Lock(t.Context(), "waits"))
		led, release := make(chan error, 1), make(chan struct{})
		turn := func(ctx context.Context) error {
			led <- nil
			<-release
			led <- ctx.Err()
			return nil
		}
		waits, leads, drained := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() { waits <- a.Lead(t.Context(), "waits", never) }()
		go func() { leads <- a.Lead(t.Context(), "leads", turn) }()
		<-led
		synctest.Wait()
		go func() { drained <- a.Drain(t.Context()) }()
		wantIs(t, <-waits, ErrClosed) // the campaign under way
		time.Sleep(time.Minute)
		if open(leads) || open(drained) {
			t.Error("the turn under way wasn't awaited")
		}
		close(release)
		if err := <-led; err != nil {
			t.Errorf("the turn under way was ended: %v", err)
		}
		wantIs(t, <-leads, ErrClosed)
		if err := <-drained; err != nil {
			t.Error(err)
		}
		wantIs(t, a.Lead(t.Context(), "later", never), ErrClosed)
		unlock(t, l)
		time.Sleep(time.Minute)
		if strings.Contains(log.String(), "this node campaigns again") {
			t.Errorf("the log of a drained node:\n%s", log.String())
		}
	})
}

// Between two short turns Lead pauses, for seconds. A node that takes no more locks wakes it.
func TestLeadInAPauseEndsAtOnceOnADrainedNode(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		turns, leads := make(chan struct{}), make(chan error, 1)
		go func() {
			leads <- a.Lead(t.Context(), "e", func(context.Context) error { turns <- struct{}{}; return nil })
		}()
		for range 20 {
			<-turns
		}
		synctest.Wait() // the turn's leadership is resigned
		if err := a.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !open(leads) {
			t.Fatal("Lead sleeps on after Drain has returned")
		}
		wantIs(t, <-leads, ErrClosed)
	})
}
