package resp

import (
	"context"
	"slices"
	"sync"
)

// keyLocks lets commands and scripts on the same key run in turn, as Redis runs all commands. A
// command waiting for the voters holds up its own keys only.
type keyLocks struct {
	mu    sync.Mutex
	inUse map[string]*keyLock
}

// keyLock is the lock of a key used or awaited by some command.
type keyLock struct {
	turn  chan struct{} // has a value while the lock is held
	users int           // guarded by keyLocks.mu
}

// lock takes the locks of keys, and returns the function for giving back. Keys are taken in
// their order, so commands don't wait for each other in a circle.
func (k *keyLocks) lock(ctx context.Context, keys ...string) (unlock func(), err error) {
	if len(keys) > 1 {
		keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	}
	for i, key := range keys {
		if err := k.lockOne(ctx, key); err != nil {
			k.unlock(keys[:i])
			return nil, err
		}
	}
	return func() { k.unlock(keys) }, nil
}

func (k *keyLocks) lockOne(ctx context.Context, key string) error {
	k.mu.Lock()
	if k.inUse == nil {
		k.inUse = make(map[string]*keyLock)
	}
	l := k.inUse[key]
	if l == nil {
		l = &keyLock{turn: make(chan struct{}, 1)}
		k.inUse[key] = l
	}
	l.users++
	k.mu.Unlock()
	select {
	case l.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		k.leave(key, l)
		return context.Cause(ctx)
	}
}

func (k *keyLocks) unlock(keys []string) {
	for _, key := range keys {
		k.mu.Lock()
		l := k.inUse[key]
		k.mu.Unlock()
		<-l.turn
		k.leave(key, l)
	}
}

func (k *keyLocks) leave(key string, l *keyLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.inUse, key)
	}
}
