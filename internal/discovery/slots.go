package discovery

import (
	"context"
	"sync"
	"time"

	"github.com/lockmesh/lockmesh/internal/world"
)

const (
	// FreshDials is how many fresh dials and probes, younger than FreshFor, may be under way at the
	// same time in all meshes of this process. A handshake takes a millisecond or two of work on
	// either side, so sixteen keep every processor busy; many more only keep each other from ending
	// in time, and must all be repeated.
	FreshDials = 16

	// FreshFor is how long a dial counts as fresh: several round trips around the world. An older
	// dial most likely waits for the network, at an address that doesn't answer, and needs no
	// processor, so that the dial no longer keeps fresh dials waiting.
	FreshFor = 250 * time.Millisecond

	// DialsAtOnce is how many dials and probes, fresh or not, may be under way in all meshes of
	// this process. A dial can also be old because the process hardly gets a processor. If such
	// dials weren't counted, sixteen more would start every quarter of a second, and so many
	// handshakes would share too little processor time to end before their timeouts. Sixty-four
	// handshakes are a quarter of a second of work for both sides; so a process that gets a tenth
	// of a processor still completes all of them within dialTimeout.
	//
	// On the other hand one mesh whose configured addresses don't answer has up to 39 hanging
	// dials: peerProbesAtOnce and probesAtOnce probes, and a dial for each of seven voters. These
	// leave room for the fresh dials of all other meshes. If even more dials hang, a dial waits
	// until one of them ends by time. Waiting dials start in the order of their arrival, and a
	// hanging dial that is repeated goes to the end of the queue, so hanging dials can delay a
	// dial, but never shut the dial out.
	DialsAtOnce = 64
)

// Slots bounds the dials under way in a process. NewSlots makes one.
type Slots struct {
	all   chan struct{} // a value for each dial under way, and for each dial next to be fresh
	fresh chan struct{} // a value for each fresh dial
}

var _ world.Turns = (*Slots)(nil)

// NewSlots returns the slots for all meshes of a process.
func NewSlots() *Slots { return newSlots(DialsAtOnce, FreshDials) }

func newSlots(all, fresh int) *Slots {
	return &Slots{all: make(chan struct{}, all), fresh: make(chan struct{}, fresh)}
}

// Take implements [world.Turns].
func (s *Slots) Take(ctx context.Context) (giveBack func(), err error) {
	select {
	case s.all <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case s.fresh <- struct{}{}:
	case <-ctx.Done():
		<-s.all
		return nil, ctx.Err()
	}
	aged := sync.OnceFunc(func() { <-s.fresh })
	timer := time.AfterFunc(FreshFor, aged)
	return sync.OnceFunc(func() {
		timer.Stop()
		aged()
		<-s.all
	}), nil
}

// takeTurn waits for the turn of a dial or a probe. The caller calls giveBack after the dial. The
// timeout of the dial begins after takeTurn. An error is that of ctx.
func (f *Finder) takeTurn(ctx context.Context) (giveBack func(), err error) {
	if f.cfg.Turns == nil {
		return func() {}, nil
	}
	return f.cfg.Turns.Take(ctx)
}
