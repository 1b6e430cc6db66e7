package discovery

import (
	"context"
	"sync"
	"time"
)

const (
	// dialsAtOnce is how many dials and probes may be under way at the same time in all meshes of
	// this process. A handshake takes a millisecond or two of work on either side, so sixteen keep
	// every processor busy; many more only keep each other from ending in time, and must all be
	// repeated.
	dialsAtOnce = 16

	// dialSlotTime is how long a dial keeps others waiting. A longer dial is waiting for the
	// network and needs no processor: so peers that don't answer don't delay the dials of peers
	// that do.
	dialSlotTime = 250 * time.Millisecond
)

// Slots bounds the dials under way in a process: each dial sends a value to the channel, and
// receives a value afterwards. A nil channel is no bound.
type Slots chan struct{}

// ProcessSlots returns slots for all meshes of a process.
func ProcessSlots() Slots { return make(Slots, dialsAtOnce) }

// acquire waits for a turn, or for the end of ctx, and returns a function that gives the turn back.
// The timeout of the dial begins afterwards.
func (t Slots) acquire(ctx context.Context) (giveBack func()) {
	if t == nil {
		return func() {}
	}
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	free := sync.OnceFunc(func() { <-t })
	timer := time.AfterFunc(dialSlotTime, free)
	return func() {
		timer.Stop()
		free()
	}
}
