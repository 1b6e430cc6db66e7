package lockmesh_test

import (
	"context"
	"fmt"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/locktest"
)

func (c *meshClient) RLock(ctx context.Context, key string) (locktest.Lock, error) {
	return lease(c.mesh.RLock(ctx, key))
}

func (c *meshClient) TryRLock(ctx context.Context, key string) (locktest.Lock, error) {
	return lease(c.mesh.TryRLock(ctx, key))
}

func (c *meshClient) Acquire(ctx context.Context, key string, permits int) (locktest.Lock, error) {
	return lease(c.mesh.Semaphore(key, permits).Acquire(ctx))
}

func (c *meshClient) TryAcquire(ctx context.Context, key string, permits int) (locktest.Lock, error) {
	return lease(c.mesh.Semaphore(key, permits).TryAcquire(ctx))
}

func (c *meshClient) LockValue(ctx context.Context, key string, value []byte) (locktest.Lock, error) {
	return lease(c.mesh.Lock(ctx, key, lockmesh.WithValue(value)))
}

func (c *meshClient) Value(ctx context.Context, key string) ([]byte, error) {
	info, err := c.mesh.Inspect(ctx, key)
	if err != nil || len(info.Holders) == 0 {
		return nil, err
	}
	return info.Holders[0].Value, nil
}

func (c *meshClient) Held(ctx context.Context, key string) (bool, error) {
	info, err := c.mesh.Inspect(ctx, key)
	return len(info.Holders) > 0, err
}

func (c *meshClient) Watch(ctx context.Context, key string) (<-chan locktest.Change, error) {
	w, err := c.mesh.Watch(ctx, key)
	if err != nil {
		return nil, err
	}
	if e, ok := <-w.Events(); !ok || e.Kind != lockmesh.Synced {
		return nil, fmt.Errorf("the watch begins with %v: %w", e, w.Err())
	}
	changes := make(chan locktest.Change)
	go func() {
		defer close(changes)
		for e := range w.Events() {
			c := locktest.Change{Granted: e.Kind == lockmesh.Granted, Lost: e.Kind == lockmesh.Lost, Missed: e.Kind == lockmesh.Gap, Token: e.Token}
			if !c.Granted && !c.Lost && !c.Missed && e.Kind != lockmesh.Released {
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
	_ locktest.Readers    = (*meshClient)(nil)
	_ locktest.Semaphores = (*meshClient)(nil)
	_ locktest.Values     = (*meshClient)(nil)
	_ locktest.Inspector  = (*meshClient)(nil)
	_ locktest.KeyWatcher = (*meshClient)(nil)
	_ locktest.Contexted  = (*lockmesh.Lease)(nil)
)
