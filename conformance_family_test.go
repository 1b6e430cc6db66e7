package lockmesh_test

import (
	"context"

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

// The compiler says if the family isn't offered whole.
var (
	_ locktest.Readers    = (*meshClient)(nil)
	_ locktest.Semaphores = (*meshClient)(nil)
	_ locktest.Values     = (*meshClient)(nil)
)
