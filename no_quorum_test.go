package lockmesh

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// wantNoQuorum checks the error of a call that has waited for voters in vain: the error matches the
// context's error and ErrNoQuorum, and names the voters that don't answer.
func wantNoQuorum(t *testing.T, call string, err error) {
	t.Helper()
	wantIs(t, err, context.DeadlineExceeded, ErrNoQuorum)
	text := fmt.Sprint(err)
	for _, part := range []string{"lockmesh: " + call, "1 of 3 voters counts: b ", ", c "} {
		if !strings.Contains(text, part) {
			t.Errorf("%s: %q isn't in %q", call, part, text)
		}
	}
}

// stallOthers cuts off b and c, and returns once a has noticed.
func (w *wire) stallOthers(a *Mesh) {
	w.t.Helper()
	w.stall("b", true)
	w.stall("c", true)
	for a.Status().Electorate.Ready {
		time.Sleep(10 * time.Millisecond)
	}
}

// Two of three counts are made when a majority of the voters stops. Await then states no number.
func TestAwaitWithoutAMajorityStatesNoNumber(t *testing.T) {
	for _, row := range []struct {
		name  string
		early bool // Await is called before the voters stop
	}{{"before", true}, {"after", false}} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, c := w.three()
				for _, m := range []*Mesh{b, c} {
					must[*Count](t)(m.CountDownLatch("l", 3).CountDown(t.Context()))
				}
				wait := 5 * time.Second
				if row.early {
					wait = time.Minute
				}
				awaits := make(chan error, 1)
				await := func() { awaits <- a.CountDownLatch("l", 3).Await(testwait.Within(t, wait)) }
				if row.early {
					go await()
					time.Sleep(time.Second)
					w.stallOthers(a)
				} else {
					w.stallOthers(a)
					go await()
				}
				err := <-awaits
				wantNoQuorum(t, `await "l"`, err)
				if strings.Contains(fmt.Sprint(err), "counts are made") {
					t.Errorf("it states a number: %v", err)
				}
				w.stall("b", false)
				w.stall("c", false)
			})
		})
	}
}

// With a majority Await states the number of counts, and the error isn't ErrNoQuorum.
func TestAwaitWithAMajorityStatesTheNumber(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		must[*Count](t)(b.CountDownLatch("l", 3).CountDown(t.Context()))
		err := a.CountDownLatch("l", 3).Await(testwait.Within(t, time.Minute))
		wantIs(t, err, context.DeadlineExceeded)
		wantNot(t, err, ErrNoQuorum)
		if !strings.Contains(fmt.Sprint(err), "1 of 3 counts are made") {
			t.Error(err)
		}
	})
}

// Calls about a lease, while the lease lasts and too few voters answer.
func TestCallsOfALeaseWithoutAMajority(t *testing.T) {
	for name, call := range map[string]func(context.Context, *Lease) error{
		"setvalue": func(ctx context.Context, l *Lease) error { return l.SetValue(ctx, []byte("v")) },
		"extend":   func(ctx context.Context, l *Lease) error { return l.Extend(ctx, time.Minute) },
		"unlock":   func(ctx context.Context, l *Lease) error { return l.Unlock(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, _, _ := w.three()
				l := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(10*time.Second), WithoutRenewal()))
				w.stallOthers(a)
				if err := l.Err(); err != nil {
					t.Fatal(err)
				}
				wantNoQuorum(t, name+` "k": too few voters answer or count: `, call(testwait.Within(t, 100*time.Millisecond), l))
			})
		})
	}
	t.Run("leave", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *wire) {
			a, _, _ := w.three()
			must[*Lease](t)(a.Lock(t.Context(), "k"))
			w.stallOthers(a)
			wantNoQuorum(t, "leave: ", a.Leave(testwait.Within(t, 100*time.Millisecond)))
		})
	})
}

// If the context has ended before Unlock is called, the error doesn't blame the voters of a healthy
// mesh.
func TestUnlockAfterTheEndOfItsContext(t *testing.T) {
	inBubbleOver(t, time.Millisecond, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		l := must[*Lease](t)(a.Lock(t.Context(), "k"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := l.Unlock(ctx)
		wantIs(t, err, context.Canceled)
		wantNot(t, err, ErrNoQuorum)
		must[*Lease](t)(b.Lock(testwait.Within(t, time.Second), "k"))
	})
}

// A member waits for others when a majority of the voters stops.
func TestABarrierWithoutAMajorityStatesNoNumber(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		entered := make(chan error, 1)
		go func() { entered <- a.DoubleBarrier("b", 2).Enter(testwait.Within(t, 7*time.Second)) }()
		time.Sleep(time.Second)
		w.stallOthers(a)
		err := <-entered
		wantNoQuorum(t, `enter "b": `, err)
		if strings.Contains(fmt.Sprint(err), "members have come") {
			t.Errorf("it states a number: %v", err)
		}
	})
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		in := a.DoubleBarrier("b", 1)
		if err := in.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.stallOthers(a)
		wantNoQuorum(t, `leave "b": `, in.Leave(testwait.Within(t, time.Second)))
	})
}

// If the context of a call about a lease ends while all voters answer, the error doesn't blame the
// voters.
func TestCallsOfALeaseDoNotBlameTheVoters(t *testing.T) {
	calls := map[string]func(context.Context, *Lease) error{
		"setvalue": func(ctx context.Context, l *Lease) error { return l.SetValue(ctx, []byte("v")) },
		"extend":   func(ctx context.Context, l *Lease) error { return l.Extend(ctx, time.Minute) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, _, _ := w.three()
				l := must[*Lease](t)(a.Lock(t.Context(), "k", WithTTL(10*time.Second), WithoutRenewal()))
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				for range 20 { // select chooses at random among the ready cases
					err := call(ended, l)
					wantIs(t, err, context.Canceled)
					wantNot(t, err, ErrNoQuorum)
				}
				ctx := l.Context()
				unlock(t, l)
				for range 20 {
					err := call(ctx, l)
					wantIs(t, err, ErrReleased)
					wantNot(t, err, ErrNoQuorum)
				}
			})
		})
	}
}

// The loss of a lease ends the calls with the lease's context, and is the reason in their errors.
func TestALossIsTheReasonOfTheCallsItEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		l := must[*Lease](t)(a.Lock(t.Context(), "k"))
		w.stall("b", true)
		w.stall("c", true)
		err := l.SetValue(l.Context(), []byte("v"))
		wantIs(t, err, ErrLost)
		wantNot(t, err, ErrNoQuorum)
		w.stall("b", false)
		w.stall("c", false)
	})
}

// Drain waits for the confirmation of a release; a released lease doesn't count as held.
func TestDrainWithoutAMajorityIsNotHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		l := must[*Lease](t)(a.Lock(t.Context(), "k"))
		w.stallOthers(a)
		wantIs(t, l.Unlock(testwait.Within(t, 100*time.Millisecond)), ErrNoQuorum)
		err := a.Drain(testwait.Within(t, 100*time.Millisecond))
		wantNoQuorum(t, "drain: ", err)
		wantNot(t, err, ErrHeld)
		w.stall("b", false)
		w.stall("c", false)
	})
}

// Drain with an ended context succeeds on a node that holds no lease and releases none.
func TestDrainOfAnIdleNodeNeedsNoTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			if err := a.Drain(ended); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A call asks the voters in time to say at its end whether the key is held. The end counts that
// comes first, of the context or of WithWait; and the WithWait of a reader's call is over when the
// reader upgrades.
func TestACallThatEndsBeforeItsWithWaitSaysThatTheKeyIsHeld(t *testing.T) {
	const latency, limit = 20 * time.Millisecond, 150 * time.Millisecond
	for _, opts := range [][]Option{nil, {WithWait(30 * time.Second)}} {
		for name, call := range map[string]func(t *testing.T, a, b *Mesh) error{
			"lock": func(t *testing.T, a, b *Mesh) error {
				must[*Lease](t)(b.Lock(t.Context(), "k"))
				time.Sleep(3 * time.Second)
				_, err := a.Lock(testwait.Within(t, limit), "k", opts...)
				return err
			},
			"upgrade": func(t *testing.T, a, b *Mesh) error {
				l := must[*Lease](t)(a.RLock(t.Context(), "k", opts...))
				must[*Lease](t)(b.RLock(t.Context(), "k"))
				time.Sleep(3 * time.Second)
				return l.Upgrade(testwait.Within(t, limit))
			},
		} {
			t.Run(fmt.Sprintf("%s with %d options", name, len(opts)), func(t *testing.T) {
				inBubbleOver(t, latency, func(t *testing.T, w *wire) {
					a, b, _ := w.three()
					wantIs(t, call(t, a, b), ErrHeld, context.DeadlineExceeded)
				})
			})
		}
	}
}
