package lockmesh

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff computes the pause before the next attempt. The pause doubles from least to most. Each
// pause is then shortened at random by up to a half, to keep nodes that lost a peer together from
// reconnecting together.
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

// sleep waits until d has passed, wake receives a value or ctx ends.
func (m *Mesh) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	over := make(chan struct{}, 1)
	stop := m.clocks.After(d, func() { kick(over) })
	defer stop()
	select {
	case <-over:
	case <-wake:
	case <-ctx.Done():
	}
}
