package lockmesh

import (
	"context"
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Semaphore is a key with a number of permits, each of which one lease can hold. A Semaphore is
// made by [Mesh.Semaphore], needs no closing, and may be used from any goroutine.
type Semaphore struct {
	mesh    *Mesh
	key     string
	permits int
}

func (s *Semaphore) checkUsable(method string) {
	checkUsable(s != nil && s.mesh != nil, method, "Mesh.Semaphore")
}

// Semaphore returns the semaphore named key, with 1 to 1,024 permits: at most so many leases hold
// the key at the same time. Nothing is sent before the first Acquire.
//
// All users of the key must agree on the number. While a permit is held or waited for, a call with
// another number fails with ErrPermits, which names both numbers. A key may be used both as a
// semaphore and as a lock: then either permits are held or the lock.
func (m *Mesh) Semaphore(key string, permits int) *Semaphore {
	m.checkUsable("Mesh.Semaphore")
	return &Semaphore{m, key, permits}
}

// Acquire waits until one of the permits is held, or ctx ends. Waiting calls are served in order of
// arrival. Errors are as with [Mesh.Lock], and ErrPermits.
//
// Each permit's lease has its own token, larger than the token of every lease on the key granted
// before this permit was requested. [Lease.Slot] returns the number of the permit.
func (s *Semaphore) Acquire(ctx context.Context, opts ...Option) (*Lease, error) {
	s.checkUsable("Semaphore.Acquire")
	checkContext(ctx, "Semaphore.Acquire")
	return s.acquire(ctx, "acquire", false, opts)
}

// TryAcquire requests a permit without waiting: [ErrHeld] means that all permits are held, or that
// earlier requests are queued. TryAcquire may return ErrHeld wrongly while a permit is just
// changing hands. Other errors are as with Acquire.
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...Option) (*Lease, error) {
	s.checkUsable("Semaphore.TryAcquire")
	checkContext(ctx, "Semaphore.TryAcquire")
	return s.acquire(ctx, "tryacquire", true, opts)
}

func (s *Semaphore) acquire(ctx context.Context, op string, try bool, opts []Option) (*Lease, error) {
	if s.permits < 1 || s.permits > MaxPermits {
		return nil, &Error{Op: op, Key: s.key, Reason: ErrPermits, Text: fmt.Sprintf("%d permits; there may be 1 to %d", s.permits, MaxPermits)}
	}
	w := newAcquireOptions(s.key, vote.Permit, try, opts)
	w.Permits = uint16(s.permits)
	return s.mesh.acquire(ctx, op, w)
}
