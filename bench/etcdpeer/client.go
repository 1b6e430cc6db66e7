package etcdpeer

import (
	"context"
	"errors"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/lockmesh/lockmesh/locktest"
)

// client is a connection with a session, which is what etcd knows as the owner of locks.
type client struct {
	way  *gate
	etcd *clientv3.Client

	mu      sync.Mutex
	session *concurrency.Session
	over    bool
}

// open begins a session. One that has ended is followed by a new one, as a user would have it.
func (c *client) open(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	lease, err := c.etcd.Grant(ctx, sessionTTL) // by itself, since NewSession's context is that of the session
	if err != nil {
		return err
	}
	c.session, err = concurrency.NewSession(c.etcd, concurrency.WithLease(lease.ID))
	return err
}

func (c *client) current(ctx context.Context) (*concurrency.Session, error) {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	select {
	case <-s.Done():
	default:
		return s, nil
	}
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	return c.current(ctx)
}

func (c *client) take(ctx context.Context, key string, by func(*concurrency.Mutex, context.Context) error) (locktest.Lock, error) {
	s, err := c.current(ctx)
	if err != nil {
		return nil, err
	}
	m := concurrency.NewMutex(s, key)
	if err := by(m, ctx); err != nil {
		return nil, err
	}
	l := &lock{m: m}
	l.ctx, l.end = context.WithCancel(s.Ctx())
	return l, nil
}

func (c *client) Lock(ctx context.Context, key string) (locktest.Lock, error) {
	return c.take(ctx, key, (*concurrency.Mutex).Lock)
}

func (c *client) TryLock(ctx context.Context, key string) (locktest.Lock, error) {
	return c.take(ctx, key, (*concurrency.Mutex).TryLock)
}

// stop ends the connection, and whatever runs on it. Both may be over already.
func (c *client) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil
	}
	c.over = true
	if c.session != nil {
		c.session.Orphan()
	}
	return errors.Join(c.etcd.Close(), c.way.close())
}

// Crash stops renewing, and hangs up.
func (c *client) Crash() error { return c.stop() }

// Leave revokes the session, and with it all that it holds and waits for.
func (c *client) Leave(ctx context.Context) error {
	s, err := c.current(ctx)
	if err == nil {
		err = s.Close()
	}
	return errors.Join(err, c.stop())
}

// Close ends the client, in good order if it can.
func (c *client) Close() error { return c.stop() }

// Cut stops all that passes between the client and the server, without an end of the connection.
func (c *client) Cut() (func(), error) {
	c.way.shut(true)
	return func() { c.way.shut(false) }, nil
}

// lock is a mutex that is held.
type lock struct {
	m   *concurrency.Mutex
	ctx context.Context
	end context.CancelFunc
}

func (l *lock) Unlock(ctx context.Context) error {
	err := l.m.Unlock(ctx)
	if err == nil {
		l.end()
	}
	return err
}

// Token is the revision of the store at which the lock was known to be held. A holder's is larger than the revision at which the one before it was deleted.
func (l *lock) Token() uint64 { return uint64(l.m.Header().Revision) }

// Done is closed after Unlock, and when the session has ended.
func (l *lock) Done() <-chan struct{} { return l.ctx.Done() }
