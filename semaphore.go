package lockmesh

import (
	"context"
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Semaphore is a key that as many may hold at once as it has permits. It is made by [Mesh.Semaphore], has nothing to be closed, and may be used from
// any goroutine.
type Semaphore struct {
	mesh    *Mesh
	key     string
	permits int
}

// Semaphore returns the semaphore of a key, with 1 to 1,024 permits, all of which can be held at once and never more. Nothing is sent
// before the first Acquire.
//
// All who use the key must agree on the number. While anybody holds or waits for a permit, a call with another number fails with ErrPermits, which names
// both. A key may be used as a semaphore and as a lock, too: then either permits are held or the lock.
func (m *Mesh) Semaphore(key string, permits int) *Semaphore { return &Semaphore{m, key, permits} }

// Acquire waits until one of the permits is held, or ctx ends. All wait in order of arrival. Errors are as with Lock, and ErrPermits.
//
// Each permit's lease has a token of its own, larger than that of every lease on the key that was granted before this one was asked for. [Lease.Slot] says which
// of the permits it is.
func (s *Semaphore) Acquire(ctx context.Context, opts ...Option) (*Lease, error) {
	return s.acquire(ctx, "acquire", false, opts)
}

// TryAcquire asks for a permit and doesn't wait: [ErrHeld] says that all of them are held, or that others stand before this call. It may say so
// wrongly while a permit is just changing hands.
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...Option) (*Lease, error) {
	return s.acquire(ctx, "tryacquire", true, opts)
}

func (s *Semaphore) acquire(ctx context.Context, op string, try bool, opts []Option) (*Lease, error) {
	if s.permits < 1 || s.permits > MaxPermits {
		return nil, &Error{Op: op, Key: s.key, Reason: ErrPermits, Text: fmt.Sprintf("%d permits; there may be 1 to %d", s.permits, MaxPermits)}
	}
	w := newWish(s.key, vote.Permit, try, opts)
	w.Permits = uint16(s.permits)
	return s.mesh.acquire(ctx, op, w)
}
