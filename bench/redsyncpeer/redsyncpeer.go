// Package redsyncpeer adapts Redlock to locktest: redsync over three servers in this process.
package redsyncpeer

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"

	"github.com/lockmesh/lockmesh/locktest"
)

const (
	// TTL is the expiry of every lock.
	TTL = time.Second

	// servers is the smallest number of servers that tolerates a failure.
	servers = 3

	// step is how often the servers' time advances. It is well below a hundredth of the TTL, the
	// clock drift assumed by redsync.
	step = 2 * time.Millisecond

	// A waiter polls again after a random delay in this range. redsync's own range is 50 to 250 ms,
	// made for longer critical sections than the suite's.
	shortestDelay, longestDelay = 10 * time.Millisecond, 50 * time.Millisecond
)

// Service is a set of three independent servers.
type Service struct {
	servers []*miniredis.Miniredis
	stop    chan struct{}
	work    sync.WaitGroup
}

// Start starts the servers on loopback. End the servers with Close.
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
	s.work.Go(s.advanceClocks)
	return s, nil
}

// advanceClocks advances the time of the servers, which have no clock of their own.
func (s *Service) advanceClocks() {
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
			// After a long pause, advance by one step only: the age of a key set during the pause
			// is unknown.
			m.FastForward(min(now.Sub(last), step))
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

// Client returns a client with its own connections.
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

// IsHeld reports whether a TryLock failed because a majority of the servers has the key for another
// client.
func (s *Service) IsHeld(err error) bool {
	var taken *redsync.ErrTaken
	return errors.As(err, &taken)
}

// StopMajority has two of the three servers read commands and answer nothing until resume, as
// servers stopped by SIGSTOP; then both servers execute what they have read. No server runs in a
// client's process, so there is nothing to spare.
func (s *Service) StopMajority(locktest.Client) (func(), error) {
	resumed := make(chan struct{})
	stopped := s.servers[:servers/2+1]
	for _, m := range stopped {
		m.Server().SetPreHook(func(*server.Peer, string, ...string) bool {
			<-resumed
			return false
		})
	}
	return func() {
		for _, m := range stopped {
			m.Server().SetPreHook(nil)
		}
		close(resumed)
	}, nil
}

var _ locktest.Stopper = (*Service)(nil)

// client is a redsync with its connections.
type client struct {
	sync  *redsync.Redsync
	conns []*goredislib.Client
	ctx   context.Context // ends with the client, and cancels all calls under way
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

// Crash closes the connections, and stops the waiters: a dead process doesn't poll.
func (c *client) Crash() error { return c.Close() }

// Close closes the connections, unless closed already.
func (c *client) Close() error {
	c.once.Do(func() {
		c.end()
		for _, conn := range c.conns {
			c.err = errors.Join(c.err, conn.Close())
		}
	})
	return c.err
}

// lock is a held mutex.
type lock struct{ m *redsync.Mutex }

func (l *lock) Unlock(ctx context.Context) error {
	ok, err := l.m.UnlockContext(ctx)
	if err == nil && !ok {
		return errors.New("redsyncpeer: too few servers had the lock")
	}
	return err
}

// Deadline returns when the lock expires: redsync doesn't renew locks by itself.
func (l *lock) Deadline() time.Time { return l.m.Until() }
