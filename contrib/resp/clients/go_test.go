package clients

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/lockmesh/lockmesh"
	"github.com/lockmesh/lockmesh/contrib/resp"
)

// TestClientsForGo has one mesh for all clients, since a mesh takes its MaxTTL to begin.
func TestClientsForGo(t *testing.T) {
	m := newMesh(t)
	first, second := served(t, m, "a"), served(t, m, "b")
	locked := served(t, m, "c", resp.WithPassword("0123456789-test-password"))

	t.Run("go-redis", func(t *testing.T) {
		ctx := t.Context()
		c, d := newRedis(t, first), newRedis(t, second)
		if ok, err := c.SetNX(ctx, "go-redis", "v", 9*time.Second).Result(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if ok, err := d.SetNX(ctx, "go-redis", "w", 9*time.Second).Result(); ok || err != nil {
			t.Fatal("beside another:", ok, err)
		}
		if v, err := d.Get(ctx, "go-redis").Result(); v != "v" || err != nil {
			t.Fatal(v, err)
		}
		if left, err := c.PTTL(ctx, "go-redis").Result(); left <= 0 || left > 9*time.Second || err != nil {
			t.Fatal(left, err)
		}
		token, err := c.Do(ctx, "LOCKMESH.TOKEN", "go-redis", "v").Uint64()
		if info, failed := m.Node("b").Inspect(ctx, "go-redis"); err != nil || failed != nil || len(info.Holders) != 1 || token != info.Holders[0].Token {
			t.Fatal(token, err, info, failed)
		}
		if _, err := d.Del(ctx, "go-redis").Result(); err == nil {
			t.Fatal("a key of another server was deleted")
		}
		if n, err := c.Del(ctx, "go-redis").Result(); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if err := d.Get(ctx, "go-redis").Err(); !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		if _, err := c.SetNX(ctx, "go-redis", "v", time.Hour).Result(); err == nil {
			t.Fatal("an hour wasn't refused")
		}
		e := redis.NewClient(&redis.Options{Addr: locked, Password: "0123456789-test-password", ClientName: "e"})
		defer e.Close()
		if err := e.Ping(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		f := redis.NewClient(&redis.Options{Addr: locked, Password: "0123456789-wrong-password"})
		defer f.Close()
		if err := f.Ping(ctx).Err(); err == nil {
			t.Fatal("a wrong password was accepted")
		}
	})

	t.Run("redsync", func(t *testing.T) {
		one := redsync.New(goredis.NewPool(newRedis(t, first)))
		two := redsync.New(goredis.NewPool(newRedis(t, second)))
		a := one.NewMutex("redsync", redsync.WithExpiry(9*time.Second))
		if err := a.Lock(); err != nil {
			t.Fatal(err)
		}
		var taken *redsync.ErrTaken
		if err := two.NewMutex("redsync").TryLock(); !errors.As(err, &taken) {
			t.Fatal("beside another:", err)
		}
		if ok, err := a.Extend(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if left := time.Until(a.Until()); left < 8*time.Second {
			t.Fatal(left)
		}
		if ok, err := a.Unlock(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if ok, err := a.Unlock(); ok || !errors.Is(err, redsync.ErrLockAlreadyExpired) {
			t.Fatal("a second time:", ok, err)
		}
		if ok, err := a.Extend(); ok || err == nil {
			t.Fatal("an extension of a lock that is over:", ok, err)
		}
		b := two.NewMutex("redsync", redsync.WithSetNXOnExtend())
		if ok, err := b.Extend(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if ok, err := b.Unlock(); !ok || err != nil {
			t.Fatal(ok, err)
		}
	})

	t.Run("redislock", func(t *testing.T) {
		ctx := t.Context()
		one, two := redislock.New(newRedis(t, first)), redislock.New(newRedis(t, second))
		lock, err := one.Obtain(ctx, "redislock", 9*time.Second, &redislock.Options{Metadata: "data"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := two.Obtain(ctx, "redislock", 9*time.Second, nil); !errors.Is(err, redislock.ErrNotObtained) {
			t.Fatal("beside another:", err)
		}
		if left, err := lock.TTL(ctx); left <= 0 || left > 9*time.Second || err != nil {
			t.Fatal(left, err)
		}
		if err := lock.Refresh(ctx, 9*time.Second, nil); err != nil {
			t.Fatal(err)
		}
		// The same token with other data overwrites the value.
		again, err := one.Obtain(ctx, "redislock", 9*time.Second, &redislock.Options{Token: lock.Token(), Metadata: "other"})
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Release(ctx); !errors.Is(err, redislock.ErrLockNotHeld) {
			t.Fatal(err)
		}
		if err := again.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if err := again.Release(ctx); !errors.Is(err, redislock.ErrLockNotHeld) {
			t.Fatal("a second time:", err)
		}
	})

	t.Run("together", func(t *testing.T) { together(t, m.Node("c"), first, second) })
}

// together has clients of several kinds and a program with lockmesh contend for a key: a single
// client holds the key at a time, and each has a larger token than the holder before.
func together(t *testing.T, mesh *lockmesh.Mesh, addrs ...string) {
	const rounds = 20
	ctx, cancel := context.WithTimeout(t.Context(), longTime)
	defer cancel()
	var holders atomic.Int32
	var newest atomic.Uint64
	hold := func(who string, token uint64) {
		if n := holders.Add(1); n != 1 {
			t.Errorf("%s: %d holders", who, n)
		}
		if before := newest.Swap(token); token <= before {
			t.Errorf("%s: token %d after %d", who, token, before)
		}
		holders.Add(-1)
	}
	var wg sync.WaitGroup
	for _, addr := range addrs {
		c := newRedis(t, addr)
		tokenOf := func(value string) uint64 {
			token, err := c.Do(ctx, "LOCKMESH.TOKEN", "together", value).Uint64()
			if err != nil {
				t.Errorf("the token: %v", err)
			}
			return token
		}
		wg.Go(func() {
			mutex := redsync.New(goredis.NewPool(c)).NewMutex("together", redsync.WithExpiry(9*time.Second), redsync.WithTries(100_000),
				redsync.WithRetryDelay(time.Millisecond))
			for range rounds {
				if err := mutex.LockContext(ctx); err != nil {
					t.Errorf("redsync: %v", err)
					return
				}
				hold("redsync", tokenOf(mutex.Value()))
				if ok, err := mutex.UnlockContext(ctx); !ok || err != nil {
					t.Errorf("redsync: %v, %v", ok, err)
				}
			}
		})
		wg.Go(func() {
			locker := redislock.New(c)
			for range rounds {
				lock, err := locker.Obtain(ctx, "together", 9*time.Second, &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)})
				if err != nil {
					t.Errorf("redislock: %v", err)
					return
				}
				hold("redislock", tokenOf(lock.Token()))
				if err := lock.Release(ctx); err != nil {
					t.Errorf("redislock: %v", err)
				}
			}
		})
	}
	wg.Go(func() {
		for range rounds {
			lease, err := mesh.Lock(ctx, "together")
			if err != nil {
				t.Errorf("lockmesh: %v", err)
				return
			}
			hold("lockmesh", lease.Token())
			if err := lease.Unlock(ctx); err != nil {
				t.Errorf("lockmesh: %v", err)
			}
		}
	})
	wg.Wait()
}
