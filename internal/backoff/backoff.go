// Package backoff computes pauses between attempts. It is part of lockmesh's implementation,
// without a compatibility promise.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Backoff computes the pause before the next attempt. The pause doubles from Least to Most. Each
// pause is then shortened at random by up to a half, to keep nodes that lost a peer together from
// reconnecting together. One goroutine at a time uses a Backoff.
type Backoff struct {
	Least, Most time.Duration
	next        time.Duration
}

// Pause returns the next pause.
func (b *Backoff) Pause() time.Duration {
	d := min(max(b.next, b.Least), b.Most)
	b.next = 2 * d
	return d - rand.N(d/2+1)
}

// Reset makes the next pause the shortest again, after a success.
func (b *Backoff) Reset() { b.next = 0 }
