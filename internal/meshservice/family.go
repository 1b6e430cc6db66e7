package meshservice

import (
	"context"
	"fmt"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/locktest"
)

func (c *client) RLock(ctx context.Context, key string) (locktest.Lock, error) {
	return lease(c.mesh.RLock(ctx, key))
}

func (c *client) TryRLock(ctx context.Context, key string) (locktest.Lock, error) {
	return lease(c.mesh.TryRLock(ctx, key))
}

func (c *client) Acquire(ctx context.Context, key string, permits int) (locktest.Lock, error) {
	return lease(c.mesh.Semaphore(key, permits).Acquire(ctx))
}

func (c *client) TryAcquire(ctx context.Context, key string, permits int) (locktest.Lock, error) {
	return lease(c.mesh.Semaphore(key, permits).TryAcquire(ctx))
}

func (c *client) LockValue(ctx context.Context, key string, value []byte) (locktest.Lock, error) {
	return lease(c.mesh.Lock(ctx, key, lockmesh.WithValue(value)))
}

func (c *client) Value(ctx context.Context, key string) ([]byte, error) {
	info, err := c.mesh.Inspect(ctx, key)
	if err != nil || len(info.Holders) == 0 {
		return nil, err
	}
	return info.Holders[0].Value, nil
}

func (c *client) Held(ctx context.Context, key string) (bool, error) {
	info, err := c.mesh.Inspect(ctx, key)
	return len(info.Holders) > 0, err
}

func (c *client) Watch(ctx context.Context, key string) (<-chan locktest.Change, error) {
	w, err := c.mesh.Watch(ctx, key)
	if err != nil {
		return nil, err
	}
	if e, ok := <-w.Events(); !ok || e.Kind != lockmesh.EventSynced {
		return nil, fmt.Errorf("the watch begins with %v: %w", e, w.Err())
	}
	changes := make(chan locktest.Change)
	go func() {
		defer close(changes)
		for e := range w.Events() {
			c := locktest.Change{Granted: e.Kind == lockmesh.EventGranted, Lost: e.Kind == lockmesh.EventLost, Missed: e.Kind == lockmesh.EventGap, Token: e.Token}
			if !c.Granted && !c.Lost && !c.Missed && e.Kind != lockmesh.EventReleased {
				continue
			}
			select {
			case changes <- c:
			case <-ctx.Done():
			}
		}
	}()
	return changes, nil
}

// The compiler says if the family isn't offered whole.
var (
	_ locktest.Readers    = (*client)(nil)
	_ locktest.Semaphores = (*client)(nil)
	_ locktest.Values     = (*client)(nil)
	_ locktest.Inspector  = (*client)(nil)
	_ locktest.KeyWatcher = (*client)(nil)
	_ locktest.Contexted  = (*lockmesh.Lease)(nil)

	_ locktest.ValueSetter = (*lockmesh.Lease)(nil)
)
