package locktest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

var (
	errHung    = errors.New("the call hasn't returned")
	errNothing = errors.New("there was no answer")
)

// guard makes a call into the service. One that doesn't return when its context ends is given up after Patience, so that it is a finding
// and doesn't hang the examination; one that panics is a finding, too.
func (p *probe) guard(ctx context.Context, what string, call func() error) error {
	returned := make(chan error, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				p.wrongf("%s panics: %v\n%s", what, v, debug.Stack())
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
	grace := time.NewTimer(p.o.Patience)
	defer grace.Stop()
	select {
	case err := <-returned:
		return err
	case <-grace.C:
		p.errorf("%s hasn't returned %v after the end of its context", what, p.o.Patience)
		return errHung
	}
}

// mode is how a lock is held.
type mode struct {
	name  string
	holds int // how many may hold the key at once in this mode; 0 is any number
	take  func(ctx context.Context, c *client, key string) (Lock, error)
}

var (
	byLock = mode{"Lock", 1, func(ctx context.Context, c *client, key string) (Lock, error) { return c.Lock(ctx, key) }}
	byTry  = mode{"TryLock", 1, func(ctx context.Context, c *client, key string) (Lock, error) { return c.TryLock(ctx, key) }}
	byRead = mode{"RLock", 0, func(ctx context.Context, c *client, key string) (Lock, error) {
		return c.Client.(Readers).RLock(ctx, key)
	}}
	byTryRead = mode{"TryRLock", 0, func(ctx context.Context, c *client, key string) (Lock, error) {
		return c.Client.(Readers).TryRLock(ctx, key)
	}}
)

func byPermit(permits int) mode {
	return mode{"Acquire", permits, func(ctx context.Context, c *client, key string) (Lock, error) {
		return c.Client.(Semaphores).Acquire(ctx, key, permits)
	}}
}

func byTryPermit(permits int) mode {
	return mode{"TryAcquire", permits, func(ctx context.Context, c *client, key string) (Lock, error) {
		return c.Client.(Semaphores).TryAcquire(ctx, key, permits)
	}}
}

func takeValue(value string) func(context.Context, *client, string) (Lock, error) {
	return func(ctx context.Context, c *client, key string) (Lock, error) {
		return c.Client.(Values).LockValue(ctx, key, []byte(value))
	}
}
