package lockmesh

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmesh/lockmesh/internal/testwait"
)

func TestSeveralKeysAreHeldAllOrNone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		all := must[*Leases](t)(a.LockAll(t.Context(), "y", "x", "y", "z"))
		leases := all.Leases()
		if len(leases) != 3 || leases[0].Key() != "x" || leases[2].Key() != "z" || all.Lease("nobody's") != nil || all.Token("nobody's") != 0 {
			t.Fatalf("%d leases", len(leases))
		}
		if all.Token("y") == 0 || all.Token("y") != all.Lease("y").Token() || time.Until(all.Deadline()) <= 0 || all.Err() != nil {
			t.Errorf("token %d, until %v, %v", all.Token("y"), all.Deadline(), all.Err())
		}
		for _, key := range []string{"x", "y", "z"} {
			_, err := b.TryLock(t.Context(), key)
			wantIs(t, err, ErrHeld)
		}
		_, err := b.LockAll(testwait.Within(t, time.Second), "w", "z")
		wantIs(t, err, ErrHeld, context.DeadlineExceeded)
		if keyOf(err) != "z" {
			t.Errorf("the error doesn't name the key: %v", err)
		}
		synctest.Wait()
		unlock(t, must[*Lease](t)(b.TryLock(t.Context(), "w"))) // nothing is left behind
		for _, m := range []*Mesh{a, b} {
			if s := m.Status(); len(s.Waiting) != 0 {
				t.Errorf("left behind: %v", s)
			}
		}
		ctx := all.Context()
		if err := all.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantIs(t, all.Err(), ErrReleased)
		wantIs(t, context.Cause(ctx), ErrReleased)
		wantIs(t, all.Unlock(t.Context()), ErrReleased)
		select {
		case <-all.Done():
		default:
			t.Error("not done")
		}
		for _, key := range []string{"x", "y", "z"} {
			unlock(t, must[*Lease](t)(b.TryLock(t.Context(), key)))
		}
		_, err = a.LockAll(t.Context())
		wantIs(t, err, ErrKey)
		_, err = a.LockAll(t.Context(), "fine", "")
		wantIs(t, err, ErrKey)
	})
}

func TestCallersThatNameKeysInOppositeOrdersDontWaitForEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		keys := []string{"p", "q", "r", "s"}
		const rounds = 100
		var inside, done atomic.Int32
		for i, m := range []*Mesh{a, b, c} {
			random := rand.New(rand.NewPCG(7, uint64(i)))
			go func() {
				for range rounds {
					mine := append([]string{}, keys...)
					random.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
					all, err := m.LockAll(t.Context(), mine[:3]...) // any two calls share a key
					if err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) != 1 {
						t.Error("two hold a key")
					}
					time.Sleep(time.Millisecond)
					inside.Add(-1)
					if err := all.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
				done.Add(1)
			}()
		}
		time.Sleep(time.Minute)
		if done.Load() != 3 {
			t.Fatalf("%d of 3 are done", done.Load())
		}
	})
}

func TestAKeyThatIsLostWhileOthersAreWaitedForEndsTheCall(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		must[*Lease](t)(b.Lock(t.Context(), "2"))
		got := make(chan error, 1)
		go func() {
			_, err := a.LockAll(t.Context(), "1", "2")
			got <- err
		}()
		time.Sleep(time.Second)
		w.stall("a", true)
		err := <-got
		wantIs(t, err, ErrLost)
		wantNot(t, err, ErrHeld, context.Canceled)
		if keyOf(err) != "1" {
			t.Errorf("the error doesn't name the key: %v", err)
		}
		unlock(t, must[*Lease](t)(c.Lock(t.Context(), "1")))
		w.stall("a", false)
		time.Sleep(time.Minute)
		if s := a.Status(); len(s.Held)+len(s.Waiting) != 0 {
			t.Errorf("left behind: %v", s)
		}
	})
}

func TestSeveralKeysAreOverWithTheFirstThatIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		all := must[*Leases](t)(a.LockAll(t.Context(), "1", "2"))
		inner := must[*Lease](t)(a.Lock(all.Context(), "2"))
		if inner.Depth() != 2 || inner.Token() != all.Token("2") {
			t.Errorf("depth %d, token %d", inner.Depth(), inner.Token())
		}
		ctx := all.Context()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		wantIs(t, all.Err(), ErrLost, ErrClosed)
		wantIs(t, ctx.Err(), context.Canceled)
		wantIs(t, all.Unlock(t.Context()), ErrClosed)
		if all := must[*Leases](t)(b.LockAll(t.Context(), "2", "1")); all.Err() != nil {
			t.Error(all.Err())
		}
	})
}

// After the loss of one key the others stay locked until Unlock: the caller may still be at work.
func TestOtherKeysStayLockedUntilUnlockAfterALoss(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, _ := w.three()
		all := must[*Leases](t)(a.LockAll(t.Context(), "1", "2"))
		if err := b.Evict(t.Context(), "2", all.Token("2")); err != nil {
			t.Fatal(err)
		}
		wantIs(t, all.Err(), ErrLost, ErrEvicted)
		time.Sleep(3 * DefaultMaxTTL)
		unlock(t, must[*Lease](t)(b.TryLock(t.Context(), "2")))
		wantIs(t, second(b.TryLock(t.Context(), "1")), ErrHeld)
		wantIs(t, all.Unlock(t.Context()), ErrLost)
		unlock(t, must[*Lease](t)(b.TryLock(t.Context(), "1")))
	})
}

func TestUnlockOfSeveralTakesOneTTLAtMost(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire) {
		a, _, _ := w.three()
		all := must[*Leases](t)(a.LockAll(t.Context(), "1", "2", "3"))
		w.stall("a", true)
		start := time.Now()
		err := all.Unlock(t.Context())
		wantIs(t, err, ErrNoQuorum)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("after %v", took)
		}
		var joined interface{ Unwrap() []error }
		if !errors.As(err, &joined) || len(joined.Unwrap()) != 3 {
			t.Errorf("not an error for each: %v", err)
		}
	})
}

// The end of the mesh, and not the caller, gives back the keys held so far: LockAll fails with
// ErrClosed, not with ErrReleased.
func TestLockAllEndsWithItsMesh(t *testing.T) {
	for name, end := range map[string]func(*Mesh) error{
		"that leaves":    func(m *Mesh) error { return m.Leave(context.Background()) },
		"that is closed": (*Mesh).Close,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire) {
				a, b, _ := w.three()
				other := must[*Lease](t)(b.Lock(t.Context(), "l"))
				failed := make(chan error, 1)
				go func() {
					_, err := a.LockAll(t.Context(), "k", "l")
					failed <- err
				}()
				synctest.Wait()
				if err := end(a); err != nil {
					t.Error(err)
				}
				err := <-failed
				wantIs(t, err, ErrClosed)
				wantNot(t, err, ErrReleased)
				unlock(t, other)
			})
		})
	}
}
