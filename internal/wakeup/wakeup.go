// Package wakeup wakes goroutines that wait for a channel. It is part of lockmesh's implementation,
// without a compatibility promise.
package wakeup

// Send wakes the present or next receiver of a channel with capacity 1. It never blocks: several
// calls before the receiver looks wake it once.
func Send(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Replace sends a value to a channel with capacity 1, in place of a value that no receiver has
// taken yet. There is one sender.
func Replace[T any](c chan T, v T) {
	select {
	case <-c:
	default:
	}
	c <- v
}
