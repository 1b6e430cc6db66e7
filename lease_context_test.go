package lockmesh

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/sampled"
)

// client starts a node without a vote beside the three voters, and waits until the node is ready.
func (w *wire) client() *Mesh {
	w.t.Helper()
	m := w.join("d", []string{"a", "b", "c"}, nil)
	if err := m.Ready(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// Each call ends a lease, with a context that ends with the lease. The caller has cancelled
// nothing, so each call returns nil once a majority has confirmed the release.
func TestALeaseIsGivenBackWithItsOwnContext(t *testing.T) {
	sampled.Computes(t)
	t.Parallel()
	type call func(m *Mesh, ctx context.Context) error
	lock := func(end func(*Lease) error) call {
		return func(m *Mesh, ctx context.Context) error {
			l, err := m.Lock(ctx, "k")
			if err != nil {
				return err
			}
			return end(l)
		}
	}
	type mine struct{}
	calls := map[string]call{
		"Unlock with Context": lock(func(l *Lease) error { return l.Unlock(l.Context()) }),
		"Unlock with a context with a deadline": lock(func(l *Lease) error {
			ctx, cancel := context.WithTimeout(l.Context(), time.Minute)
			defer cancel()
			return l.Unlock(ctx)
		}),
		"Unlock with a derived context": lock(func(l *Lease) error {
			ctx, cancel := context.WithCancel(context.WithValue(l.Context(), mine{}, 1))
			defer cancel()
			return l.Unlock(ctx)
		}),
		"Unlock with the context of a re-entry": lock(func(l *Lease) error {
			inner, err := (&Mesh{eng: l.own.Engine()}).Lock(l.Context(), "k")
			return errors.Join(err, l.Unlock(inner.Context()))
		}),
		"Unlock within Do": func(m *Mesh, ctx context.Context) error {
			return m.Do(ctx, "k", func(ctx context.Context, l *Lease) error { return l.Unlock(ctx) })
		},
		"Unlock of the outer of two Dos with the context of the inner": func(m *Mesh, ctx context.Context) error {
			return m.Do(ctx, "k", func(ctx context.Context, outer *Lease) error {
				return m.Do(ctx, "l", func(ctx context.Context, _ *Lease) error { return outer.Unlock(ctx) })
			})
		},
		"Resign": func(m *Mesh, ctx context.Context) error {
			l, err := m.Election("k").Campaign(ctx, nil)
			if err != nil {
				return err
			}
			return l.Resign(l.Context())
		},
		"Unlock of several": func(m *Mesh, ctx context.Context) error {
			l, err := m.LockAll(ctx, "k", "l", "m")
			if err != nil {
				return err
			}
			return l.Unlock(l.Context())
		},
		"Unlock of several with the context of one": func(m *Mesh, ctx context.Context) error {
			l, err := m.LockAll(ctx, "k", "l", "m")
			if err != nil {
				return err
			}
			return l.Unlock(l.Lease("l").Context())
		},
		"Unlock with the context of several that have re-entered the lease": func(m *Mesh, ctx context.Context) error {
			l, err := m.Lock(ctx, "k")
			if err != nil {
				return err
			}
			several, err := m.LockAll(l.Context(), "k", "l")
			if err != nil {
				return err
			}
			return errors.Join(l.Unlock(several.Context()), several.Lease("l").Unlock(ctx))
		},
		"Unlock of several with the context of several that have re-entered them": func(m *Mesh, ctx context.Context) error {
			l, err := m.LockAll(ctx, "k", "l")
			if err != nil {
				return err
			}
			inner, err := m.LockAll(l.Context(), "k", "l")
			if err != nil {
				return err
			}
			return l.Unlock(inner.Context())
		},
		"Unlock of a permit": func(m *Mesh, ctx context.Context) error {
			l, err := m.Semaphore("s", 3).Acquire(ctx)
			if err != nil {
				return err
			}
			return l.Unlock(l.Context())
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				client := w.client()
				for range 100 {
					for _, m := range []*Mesh{a, client} {
						if err := call(m, t.Context()); err != nil {
							t.Fatalf("%s: %v", m.Name(), err)
						}
					}
				}
				must[*Lease](t)(b.TryLock(t.Context(), "k"))
			})
		})
	}
}

func TestLeaveWithTheContextOfALease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		_, b, _ := w.three()
		client := w.client()
		l := must[*Lease](t)(client.Lock(t.Context(), "k"))
		if err := client.Leave(l.Context()); err != nil {
			t.Fatal(err)
		}
		must[*Lease](t)(b.TryLock(t.Context(), "k"))
	})
}

// A deadline or a cancellation of the caller's own ends the wait for the release, and so does the
// end of another lease; the end of the released lease doesn't.
func TestACallersOwnEndCountsWithTheLeasesContext(t *testing.T) {
	const second = time.Second
	cut := func(w *wire) (client *Mesh) {
		w.three()
		return w.client()
	}
	stall := func(w *wire) {
		w.stall("b", true)
		w.stall("c", true)
	}
	t.Run("a deadline", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *wire) {
			client := cut(w)
			l := must[*Lease](t)(client.Lock(t.Context(), "k"))
			stall(w)
			ctx, cancel := context.WithTimeout(l.Context(), second)
			defer cancel()
			began := time.Now()
			err := l.Unlock(ctx)
			wantIs(t, err, context.DeadlineExceeded)
			wantNot(t, err, context.Canceled)
			if took := time.Since(began); took != second {
				t.Errorf("it returned after %v", took)
			}
		})
	})
	t.Run("the end of the context that Do was called with", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *wire) {
			client := cut(w)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_ = client.Do(ctx, "k", func(inner context.Context, l *Lease) error {
				stall(w)
				time.AfterFunc(second, cancel)
				began := time.Now()
				wantIs(t, l.Unlock(inner), context.Canceled)
				if took := time.Since(began); took != second {
					t.Errorf("it returned after %v", took)
				}
				return nil
			})
		})
	})
	t.Run("an end before", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *wire) {
			client := cut(w)
			l := must[*Lease](t)(client.Lock(t.Context(), "k"))
			stall(w)
			ctx, cancel := context.WithCancel(l.Context())
			cancel()
			began := time.Now()
			wantIs(t, l.Unlock(ctx), context.Canceled)
			synctest.Wait()
			if took := time.Since(began); took != 0 {
				t.Errorf("it returned after %v", took)
			}
		})
	})
	t.Run("the end of another lease", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *wire) {
			client := cut(w)
			l := must[*Lease](t)(client.Lock(t.Context(), "k"))
			other := must[*Lease](t)(client.Lock(t.Context(), "other"))
			ctx := other.Context()
			if err := other.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			stall(w)
			wantIs(t, l.Unlock(ctx), context.Canceled)
		})
	})
}
