package lockmesh

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

// Stop and Leave end the context of a function of Do, LeadOnce and Lead, and give the key away only
// after the function has returned.
func TestTheEndOfANodeWaitsForFunctions(t *testing.T) {
	const work = 3 * time.Second // of a function, after the end of its context
	for name, end := range map[string]func(*Mesh, context.Context) error{"Stop": (*Mesh).Stop, "Leave": (*Mesh).Leave} {
		for kind, run := range map[string]func(m *Mesh, f func(context.Context) error) error{
			"Do": func(m *Mesh, f func(context.Context) error) error {
				return m.Do(context.Background(), "k", func(ctx context.Context, _ *Lease) error { return f(ctx) })
			},
			"LeadOnce": func(m *Mesh, f func(context.Context) error) error { return m.LeadOnce(context.Background(), "k", f) },
			"Lead":     func(m *Mesh, f func(context.Context) error) error { return m.Lead(context.Background(), "k", f) },
		} {
			t.Run(name+" and "+kind, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *wire) {
					a, b, _ := w.three()
					began, returned := make(chan struct{}), time.Time{}
					ran := failing(func() error {
						return run(a, func(ctx context.Context) error {
							close(began)
							<-ctx.Done()
							if cause := context.Cause(ctx); !errors.Is(cause, ErrClosed) {
								t.Errorf("the context ended with %v", cause)
							}
							time.Sleep(work)
							returned = time.Now()
							return nil
						})
					})
					<-began
					granted := time.Time{}
					waits := failing(func() error {
						l, err := b.Lock(context.Background(), "k")
						if err != nil {
							return err
						}
						granted = time.Now()
						return l.Unlock(context.Background())
					})
					time.Sleep(time.Second)
					if err := end(a, testwait.Within(t, time.Minute)); err != nil {
						t.Error(err)
					}
					if err := <-ran; kind == "Lead" {
						wantIs(t, err, ErrClosed)
					} else if err != nil {
						t.Errorf("%s returned %v", kind, err)
					}
					if err := <-waits; err != nil || granted.Before(returned) {
						t.Errorf("b has the key %v before the function has returned; %v", returned.Sub(granted), err)
					}
				})
			})
		}
	}
}

// A function that doesn't return in time keeps its key until the lease has expired at the voters;
// the other leases are given back at once.
func TestAFunctionThatGoesOnKeepsItsKeyAtTheEndOfItsNode(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		began, end := make(chan struct{}), make(chan struct{})
		goOn := sync.OnceFunc(func() { close(end) })
		defer goOn() // also if the test fails
		ran := failing(func() error {
			return a.Do(context.Background(), "k", func(context.Context, *Lease) error {
				close(began)
				<-end
				return nil
			})
		})
		<-began
		must[*Lease](t)(a.Lock(t.Context(), "other"))
		stopping := time.Now()
		err := a.Stop(testwait.Within(t, 8*time.Second))
		wantIs(t, err, ErrHeld)
		if took := time.Since(stopping); took < 5*time.Second || took > 8*time.Second {
			t.Errorf("Stop took %v: %v", took, err)
		}
		unlock(t, must[*Lease](t)(b.TryLock(t.Context(), "other")))
		_, held := b.TryLock(t.Context(), "k")
		wantIs(t, held, ErrHeld)
		unlock(t, must[*Lease](t)(b.Lock(t.Context(), "k")))
		goOn()
		wantIs(t, <-ran, ErrLost)
	})
}

// A function may end its node, and isn't waited for if the context is its own. With another context
// the end waits for a TTL. No function begins afterwards, also if it waited for its lease.
func TestAFunctionMayEndItsNode(t *testing.T) {
	for name, own := range map[string]bool{"with its own context": true, "with another context": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				l := must[*Lease](t)(b.Lock(t.Context(), "other"))
				waits := failing(func() error {
					return a.Do(context.Background(), "other", func(context.Context, *Lease) error {
						t.Error("it runs")
						return nil
					})
				})
				time.Sleep(time.Second)
				began := time.Now()
				err := a.Do(context.Background(), "k", func(ctx context.Context, _ *Lease) error {
					if own {
						if err := a.Stop(ctx); err != nil {
							t.Error(err)
						}
						return nil
					}
					wantIs(t, a.Stop(context.Background()), ErrHeld)
					return nil
				})
				want := map[bool]error{true: ErrReleased, false: ErrLost}[own]
				wantIs(t, err, want)
				if took := time.Since(began); took > DefaultMaxTTL+time.Second || own && took > time.Second {
					t.Errorf("Stop took %v", took)
				}
				wantIs(t, <-waits, ErrClosed)
				unlock(t, l)
				wantIs(t, a.Do(t.Context(), "k", func(context.Context, *Lease) error { return nil }), ErrClosed)
			})
		})
	}
}

// failing runs a function in a goroutine of its own, and returns a channel for its error.
func failing(f func() error) <-chan error {
	c := make(chan error, 1)
	go func() {
		err := errors.New("the function ended its goroutine")
		defer func() { c <- err }()
		err = f()
	}()
	return c
}

// A function that has given up its lease, or lost it, isn't waited for.
func TestAFunctionWithoutItsLeaseIsNotWaitedFor(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Mesh, *Lease){
		"unlocked before":    func(t *testing.T, _ *Mesh, l *Lease) { unlock(t, l) },
		"unlocked meanwhile": func(t *testing.T, _ *Mesh, l *Lease) { time.AfterFunc(time.Second, func() { unlock(t, l) }) },
		"the mesh is closed": func(_ *testing.T, m *Mesh, _ *Lease) { time.AfterFunc(time.Second, func() { _ = m.Close() }) },
		"it is evicted meanwhile": func(_ *testing.T, m *Mesh, l *Lease) {
			time.AfterFunc(time.Second, func() { _ = m.Evict(context.Background(), l.Key(), l.Token()) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, _, _ := w.three()
				began, goesOn := make(chan struct{}), make(chan struct{})
				ran := failing(func() error {
					return a.Do(context.Background(), "k", func(_ context.Context, l *Lease) error {
						end(t, a, l)
						close(began)
						<-goesOn
						return nil
					})
				})
				<-began
				stopping := time.Now()
				if err := a.Stop(context.Background()); err != nil {
					t.Error(err)
				}
				if took := time.Since(stopping); took > 3*time.Second {
					t.Errorf("Stop took %v", took)
				}
				close(goesOn)
				<-ran
			})
		})
	}
}

// A function may have its voter voted out, with its own context.
func TestAFunctionMayLeave(t *testing.T) {
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.born()
		w.start("d", expect(3))
		w.ready("d")
		time.Sleep(2 * DefaultMaxTTL) // d is on standby
		err := w.nodes["a"].Do(context.Background(), "k", func(ctx context.Context, _ *Lease) error { return w.nodes["a"].Leave(ctx) })
		wantIs(t, err, ErrReleased)
		if errors.Is(err, ErrStillVoter) {
			t.Error(err)
		}
		w.untilVoters("b", "b", "c", "d")
	})
}

// A voter gives its vote up while its functions still run, so that Leave takes no longer than the
// longer of the two.
func TestAVoterLeavesWhileItsFunctionsRun(t *testing.T) {
	const work = 25 * time.Second
	inCountedBubble(t, func(t *testing.T, w *living) {
		w.born()
		w.start("d", expect(3))
		w.ready("d")
		time.Sleep(2 * DefaultMaxTTL) // d is on standby
		began := make(chan struct{})
		ran := failing(func() error {
			return w.nodes["a"].Do(context.Background(), "k", func(ctx context.Context, _ *Lease) error {
				close(began)
				<-ctx.Done()
				time.Sleep(work)
				return nil
			})
		})
		<-began
		leaving := time.Now()
		if err := w.nodes["a"].Leave(testwait.Within(t, time.Minute)); err != nil {
			t.Error(err)
		}
		if took := time.Since(leaving); took < work || took > work+2*time.Second {
			t.Errorf("Leave took %v", took)
		}
		if err := <-ran; err != nil {
			t.Error(err)
		}
		w.untilVoters("b", "b", "c", "d")
		w.unlock(w.lock("b", "k"))
	})
}
