package load

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/lockmesh/lockmesh/bench/internal/peer"
)

// takers is how many callers take or release locks concurrently.
const takers = 256

// HoldArgs name the keys to take.
type HoldArgs struct{ Name string }

// Held are held locks.
type Held struct{ unlocks []peer.Unlock }

// Room allocates the list for n locks in advance, so that the list doesn't count as memory used by
// the locks.
func (h *Held) Room(n int) { h.unlocks = make([]peer.Unlock, n) }

// Take takes as many locks as there is room for, each of a different key.
func (h *Held) Take(ctx context.Context, n peer.Node, a HoldArgs) error {
	return each(ctx, len(h.unlocks), func(ctx context.Context, i int) (err error) {
		if holder, ok := n.(peer.Holder); ok {
			h.unlocks[i], err = holder.Hold(ctx, Key(a.Name, i))
			return err
		}
		h.unlocks[i], _, err = n.Lock(ctx, Key(a.Name, i))
		return err
	})
}

// Release releases all locks.
func (h *Held) Release(ctx context.Context) error {
	unlocks := h.unlocks
	h.unlocks = nil
	return each(ctx, len(unlocks), func(ctx context.Context, i int) error { return unlocks[i](ctx) })
}

func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var next atomic.Int64
	var work sync.WaitGroup
	for range min(takers, n) {
		work.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					fail(err)
				}
			}
		})
	}
	work.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
