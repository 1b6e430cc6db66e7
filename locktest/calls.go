package locktest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

var (
	errCallTimeout = errors.New("the call hasn't returned")
	errNoResult    = errors.New("there was no answer")
)

// invoke makes a call into the service. A call that hasn't returned Timeout after the end of its
// context is abandoned and reported as a finding, so the suite never hangs. A panic of the call is
// a finding, too.
func (p *probe) invoke(ctx context.Context, what string, call func() error) error {
	returned := make(chan error, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				p.inexcusablef("%s panics: %v\n%s", what, v, debug.Stack())
				returned <- fmt.Errorf("%s panics: %v", what, v)
			}
		}()
		returned <- call()
	}()
	select {
	case err := <-returned:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(p.o.Timeout)
	defer grace.Stop()
	select {
	case err := <-returned:
		return err
	case <-grace.C:
		p.errorf("%s hasn't returned %v after the end of its context", what, p.o.Timeout)
		return errCallTimeout
	}
}

// mode is how a lock is held.
type mode struct {
	name       string
	maxHolders int // how many holders the key may have at once in this mode; 0 is any number
	acquire    func(ctx context.Context, c *client, key string) (Lock, error)
}

var (
	lockMode    = mode{"Lock", 1, func(ctx context.Context, c *client, key string) (Lock, error) { return c.Lock(ctx, key) }}
	tryLockMode = mode{"TryLock", 1, func(ctx context.Context, c *client, key string) (Lock, error) { return c.TryLock(ctx, key) }}
	rlockMode   = mode{"RLock", 0, func(ctx context.Context, c *client, key string) (Lock, error) {
		return c.Client.(Readers).RLock(ctx, key)
	}}
	tryRLockMode = mode{"TryRLock", 0, func(ctx context.Context, c *client, key string) (Lock, error) {
		return c.Client.(Readers).TryRLock(ctx, key)
	}}
)

func acquireMode(permits int) mode {
	return mode{"Acquire", permits, func(ctx context.Context, c *client, key string) (Lock, error) {
		return c.Client.(Semaphores).Acquire(ctx, key, permits)
	}}
}

func tryAcquireMode(permits int) mode {
	return mode{"TryAcquire", permits, func(ctx context.Context, c *client, key string) (Lock, error) {
		return c.Client.(Semaphores).TryAcquire(ctx, key, permits)
	}}
}

func lockValue(value string) func(context.Context, *client, string) (Lock, error) {
	return func(ctx context.Context, c *client, key string) (Lock, error) {
		return c.Client.(Values).LockValue(ctx, key, []byte(value))
	}
}
