package lockmesh

import (
	"sync"
	"testing"
)

// Three nodes take the maximum number of permits at once, and get all, each in a slot of its own.
func TestAsManyPermitsAsThereMayBe(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *wire) {
		a, b, c := w.three()
		nodes := []*Mesh{a, b, c}
		slots := make([]int, MaxPermits)
		var all sync.WaitGroup
		for n, m := range nodes {
			all.Go(func() {
				for i := n; i < MaxPermits; i += len(nodes) {
					l, err := m.Semaphore("k", MaxPermits).Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					slots[i] = l.Slot()
				}
			})
		}
		all.Wait()
		seen := make(map[int]bool)
		for _, s := range slots {
			if s < 1 || s > MaxPermits || seen[s] {
				t.Fatalf("slot %d", s)
			}
			seen[s] = true
		}
		_, err := a.Semaphore("k", MaxPermits).TryAcquire(t.Context())
		wantIs(t, err, ErrHeld)
		_, err = a.Semaphore("k", MaxPermits+1).TryAcquire(t.Context())
		wantIs(t, err, ErrPermits)
	})
}
