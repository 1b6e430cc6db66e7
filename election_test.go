package lockmesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// observed collects the leaders seen by an observer of an election, as texts.
func observed(t *testing.T, e *Election) (words func() []string) {
	t.Helper()
	heard := make(chan string, 1000)
	go func() {
		last := uint64(0)
		for l, err := range e.Observe(t.Context()) {
			word := fmt.Sprintf("%s %s", l.Node, l.Value)
			switch {
			case err != nil:
				word = "end"
			case l.None:
				word = "none"
			case l.Token < last:
				t.Errorf("token %d after %d", l.Token, last)
			}
			last = max(last, l.Token)
			if l.Missed {
				word = "missed " + word
			}
			heard <- word
		}
	}()
	return func() []string {
		synctest.Wait()
		var all []string
		for len(heard) > 0 {
			all = append(all, <-heard)
		}
		return all
	}
}

func wantHeard(t *testing.T, words func() []string, want ...string) {
	t.Helper()
	if got := words(); !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
}

func TestAnElectionHasOneLeaderAtATimeInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		_, err := c.Election("e").Leader(t.Context())
		wantIs(t, err, ErrNoLeader)
		words := observed(t, c.Election("e"))
		wantHeard(t, words, "none")
		first := must[*Leadership](t)(a.Election("e").Campaign(t.Context(), []byte("A")))
		wantHeard(t, words, "a A")
		leader := must[Leader](t)(c.Election("e").Leader(t.Context()))
		if leader.None || leader.Node != "a" || string(leader.Value) != "A" || leader.Token != first.Token() {
			t.Errorf("%+v", leader)
		}
		time.Sleep(2 * time.Second)
		second := make(chan *Leadership)
		go func() { second <- must[*Leadership](t)(b.Election("e").Campaign(t.Context(), []byte("B"))) }()
		time.Sleep(time.Minute)
		if err := first.Proclaim(t.Context(), []byte("A2")); err != nil || first.Err() != nil || time.Until(first.Deadline()) <= 0 {
			t.Fatal(err)
		}
		wantHeard(t, words, "a A2")
		ctx := first.Context()
		if err := first.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantIs(t, context.Cause(ctx), ErrReleased)
		wantIs(t, first.Proclaim(t.Context(), nil), ErrReleased)
		wantIs(t, first.Resign(t.Context()), ErrReleased)
		<-first.Done()
		next := <-second
		if next.Token() <= first.Token() {
			t.Errorf("token %d after %d", next.Token(), first.Token())
		}
		wantHeard(t, words, "none", "b B")
		if err := b.Close(); err != nil { // b crashes
			t.Fatal(err)
		}
		wantIs(t, next.Err(), ErrLost)
		third := must[*Leadership](t)(a.Election("e").Campaign(t.Context(), nil))
		wantHeard(t, words, "none", "a ")
		if third.Lease().Key() != "e" {
			t.Error(third.Lease().Key())
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		wantHeard(t, words, "end")
	})
}

func TestAnObserverThatIsTooSlowIsToldThatItMissedLeaders(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, c := w.three()
		const leaders = 400
		n, missed := 0, 0
		for l, err := range c.Election("e").Observe(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 1 {
				for i := range leaders {
					l := must[*Leadership](t)(a.Election("e").Campaign(t.Context(), fmt.Append(nil, i)))
					if err := l.Resign(t.Context()); err != nil {
						t.Fatal(err)
					}
					synctest.Wait() // only the first leaders are under way to the observer
				}
				time.Sleep(watchPatience)
				must[*Leadership](t)(a.Election("e").Campaign(t.Context(), []byte("last")))
				synctest.Wait()
			}
			if l.Missed {
				missed++
			}
			if string(l.Value) == "last" {
				break
			}
		}
		if missed != 1 || n > 10 { // the first leaders were under way to the observer already
			t.Errorf("%d leaders were told, %d times some were missed", n, missed)
		}
		synctest.Wait()
		if n := c.eng.Open().VoterWatches; n != 0 {
			t.Errorf("%d watches are left behind", n)
		}
	})
}

func TestLeadOnceRunsItsFunctionWhileItLeads(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		errOver := errors.New("the work is over")
		var running atomic.Int32
		handed := make(chan error, 1)
		err := a.LeadOnce(t.Context(), "e", func(ctx context.Context) error {
			running.Add(1)
			go func() {
				handed <- b.LeadOnce(t.Context(), "e", func(context.Context) error {
					if running.Load() != 0 {
						t.Error("it leads while the other's function runs")
					}
					return nil
				})
			}()
			time.Sleep(time.Minute)
			running.Add(-1)
			return errOver
		}, WithValue([]byte("v")))
		wantIs(t, err, errOver)
		if err := <-handed; err != nil {
			t.Fatal(err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		err = a.LeadOnce(ctx, "e", func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			unlocked := make(chan error, 1)
			go func() { _, err := b.TryLock(t.Context(), "e"); unlocked <- err }()
			wantIs(t, <-unlocked, ErrHeld) // until the function has returned
			return ctx.Err()
		})
		wantIs(t, err, context.Canceled)
		wantNot(t, err, ErrLost)

		err = a.LeadOnce(t.Context(), "e", func(ctx context.Context) error {
			w.stall("a", true)
			<-ctx.Done()
			wantIs(t, context.Cause(ctx), ErrLost)
			return nil
		})
		wantIs(t, err, ErrLost)
		w.stall("a", false)
		must[*Lease](t)(b.Lock(t.Context(), "e"))
		err = a.LeadOnce(testwait.Within(t, time.Second), "e", func(context.Context) error { return errOver })
		wantIs(t, err, ErrHeld, context.DeadlineExceeded)
		if !contains(err.Error(), `lead "e"`) {
			t.Error(err)
		}
	})
}
