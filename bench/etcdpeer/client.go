package etcdpeer

import (
	"context"
	"errors"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/lockmesh/lockmesh/locktest"
)

// client is a connection with a session, the owner of locks in etcd's view.
type client struct {
	proxy *proxy
	etcd  *clientv3.Client

	mu      sync.Mutex
	session *concurrency.Session
	closed  bool
}

// open begins a session. A session that has ended is followed by a new session, as in a user's
// program.
func (c *client) open(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Grant is a separate call, since NewSession's context lasts as long as the session.
	lease, err := c.etcd.Grant(ctx, sessionTTL)
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

// stop ends the connection, and everything using the connection. Both may have ended already.
func (c *client) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	if c.session != nil {
		c.session.Orphan()
	}
	return errors.Join(c.etcd.Close(), c.proxy.close())
}

// Crash stops renewing, and closes the connection.
func (c *client) Crash() error { return c.stop() }

// Leave revokes the session, with all its locks and requests.
func (c *client) Leave(ctx context.Context) error {
	s, err := c.current(ctx)
	if err == nil {
		err = s.Close()
	}
	return errors.Join(err, c.stop())
}

// Close ends the client. Unlike Leave, Close lets the session expire.
func (c *client) Close() error { return c.stop() }

// Cut stops all traffic between the client and the server, without closing the connection.
func (c *client) Cut() (func(), error) {
	c.proxy.setBlocked(true)
	return func() { c.proxy.setBlocked(false) }, nil
}

// lock is a held mutex.
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

// Token returns the revision of the store at which the lock was known to be held. The token is
// larger than the revision at which the previous holder's key was deleted.
func (l *lock) Token() uint64 { return uint64(l.m.Header().Revision) }

// Done is closed after Unlock, and when the session has ended.
func (l *lock) Done() <-chan struct{} { return l.ctx.Done() }
