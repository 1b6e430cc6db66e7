// Package redsyncpeer makes Redlock a service that locktest can examine: redsync over three servers in this process.
package redsyncpeer

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"

	"github.com/lockmesh/lockmesh/locktest"
)

const (
	// TTL is the expiry of every lock.
	TTL = time.Second

	// servers is the least number of which one may be lost.
	servers = 3

	// step is how often the servers hear that time has passed. It is well below a hundredth of the TTL, by which redsync assumes clocks to differ.
	step = 2 * time.Millisecond

	// Who waits asks again after a while, between these. redsync's own values are 50 to 250 ms, and made for longer work than that of an examination.
	shortestDelay, longestDelay = 10 * time.Millisecond, 50 * time.Millisecond
)

// Service is three servers that know nothing of each other.
type Service struct {
	servers []*miniredis.Miniredis
	stop    chan struct{}
	work    sync.WaitGroup
}

// Start starts the servers on loopback. End them with Close.
func Start() (*Service, error) {
	s := &Service{stop: make(chan struct{})}
	for range servers {
		m := miniredis.NewMiniRedis()
		if err := m.Start(); err != nil {
			s.Close()
			return nil, err
		}
		s.servers = append(s.servers, m)
	}
	s.work.Go(s.pass)
	return s, nil
}

// pass lets time pass at the servers, which have no clock of their own.
func (s *Service) pass() {
	tick := time.NewTicker(step)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-tick.C:
		case <-s.stop:
			return
		}
		now := time.Now()
		for _, m := range s.servers {
			m.FastForward(min(now.Sub(last), step)) // of a long pause nobody knows which keys came after it
		}
		last = now
	}
}

// Close ends the servers.
func (s *Service) Close() {
	close(s.stop)
	s.work.Wait()
	for _, m := range s.servers {
		m.Close()
	}
}

// Client returns a client with connections of its own.
func (s *Service) Client(context.Context) (locktest.Client, error) {
	c := &client{}
	c.ctx, c.end = context.WithCancel(context.Background())
	var pools []redis.Pool
	for _, m := range s.servers {
		conn := goredislib.NewClient(&goredislib.Options{Addr: m.Addr(), MaxRetries: -1})
		c.conns = append(c.conns, conn)
		pools = append(pools, goredis.NewPool(conn))
	}
	c.sync = redsync.New(pools...)
	return c, nil
}

// IsHeld reports whether a TryLock failed because a majority of the servers has the key for another.
func (s *Service) IsHeld(err error) bool {
	var taken *redsync.ErrTaken
	return errors.As(err, &taken)
}

// client is a redsync with its connections.
type client struct {
	sync  *redsync.Redsync
	conns []*goredislib.Client
	ctx   context.Context // ends with the client, and with it all calls under way
	end   context.CancelFunc
	once  sync.Once
	err   error
}

func (c *client) take(ctx context.Context, key string, by func(*redsync.Mutex, context.Context) error) (locktest.Lock, error) {
	m := c.sync.NewMutex(key, redsync.WithExpiry(TTL), redsync.WithTries(math.MaxInt), redsync.WithRetryDelayFunc(func(int) time.Duration {
		return shortestDelay + rand.N(longestDelay-shortestDelay)
	}))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(errors.New("redsyncpeer: the client has ended")) })()
	if err := by(m, ctx); err != nil {
		return nil, err
	}
	return &lock{m}, nil
}

func (c *client) Lock(ctx context.Context, key string) (locktest.Lock, error) {
	return c.take(ctx, key, (*redsync.Mutex).LockContext)
}

func (c *client) TryLock(ctx context.Context, key string) (locktest.Lock, error) {
	return c.take(ctx, key, (*redsync.Mutex).TryLockContext)
}

// Crash hangs up, and stops who waits: nobody asks for a process that is dead.
func (c *client) Crash() error { return c.Close() }

// Close hangs up, unless that was done.
func (c *client) Close() error {
	c.once.Do(func() {
		c.end()
		for _, conn := range c.conns {
			c.err = errors.Join(c.err, conn.Close())
		}
	})
	return c.err
}

// lock is a mutex that is held.
type lock struct{ m *redsync.Mutex }

func (l *lock) Unlock(ctx context.Context) error {
	ok, err := l.m.UnlockContext(ctx)
	if err == nil && !ok {
		return errors.New("redsyncpeer: too few servers had the lock")
	}
	return err
}

// Deadline is when the lock expires: redsync doesn't renew by itself.
func (l *lock) Deadline() time.Time { return l.m.Until() }
