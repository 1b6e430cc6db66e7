package lockmesh

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is the pause before the next try: it doubles from least to most, and each pause is shortened at random by up to a half, so that
// nodes that lost a peer together don't come back together.
type backoff struct {
	least, most time.Duration
	next        time.Duration
}

func (b *backoff) pause() time.Duration {
	d := min(max(b.next, b.least), b.most)
	b.next = 2 * d
	return d - rand.N(d/2+1)
}

func (b *backoff) reset() { b.next = 0 }

// sleep waits for d, or until somebody wakes it or ctx ends.
func (m *Mesh) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	over := make(chan struct{}, 1)
	stop := m.clocks.after(d, func() { kick(over) })
	defer stop()
	select {
	case <-over:
	case <-wake:
	case <-ctx.Done():
	}
}
