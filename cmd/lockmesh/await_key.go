package main

import (
	"context"
	"time"

	"github.com/lockmesh/lockmesh/admin"
)

// freeTime is the pause between two looks at a key whose end of use may cause no event: a waiting
// request may be given up, and the key may be kept from all after its last holder.
const freeTime = time.Second

// key waits until a key is free. The node's events about the key say when to look.
func (w *wait) key(ctx context.Context, c *admin.Client, key string) (any, string, error) {
	ctx, cancel := context.WithCancel(ctx)
	changes, failed := make(chan struct{}, 1), make(chan error, 1)
	ended := make(chan struct{})
	defer func() { cancel(); <-ended }()
	go func() {
		defer close(ended)
		for _, err := range c.Watch(ctx, key) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case changes <- struct{}{}:
			default: // a look is due
			}
		}
	}()
	for {
		lock, err := w.look(ctx, c, key)
		if err != nil {
			return nil, "", err
		}
		w.seen = time.Now()
		again := askTime
		switch {
		case len(lock.Holders) == 0 && len(lock.Waiters) == 0 && lock.DelayedMS == 0:
			return lock, safe(key) + " is free", nil
		case w.isOver():
			return nil, "", w.over(holdersLine(lock))
		case len(lock.Holders) == 0 || w.isWatched():
			again = freeTime
		}
		w.say(holdersLine(lock))
		timer := time.NewTimer(w.most(again))
		select {
		case <-changes:
		case <-timer.C:
		case err = <-failed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		timer.Stop()
		if err != nil {
			return nil, "", err
		}
	}
}

// look returns the state of a key, as far as the node answers in time.
func (w *wait) look(ctx context.Context, c *admin.Client, key string) (*admin.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, w.g.Timeout)
	defer cancel()
	return c.Inspect(ctx, key)
}
