package peer

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis"
)

// redsyncNode locks on a majority of several Redis servers.
type redsyncNode struct {
	sync    *redsync.Redsync
	opts    []redsync.Option
	close   []func() error
	renewer *renewer
}

func openRedsync(ctx context.Context, s Spec) (Node, error) {
	n := &redsyncNode{opts: append(redsyncOptions(), redsync.WithFailFast(true))}
	var pools []redsyncredis.Pool
	for _, addr := range s.Addrs {
		pool, err := n.dial(ctx, s.Service, addr)
		if err != nil {
			return nil, errors.Join(err, n.Close())
		}
		pools = append(pools, pool)
	}
	n.sync = redsync.New(pools...)
	n.renewer = newRenewer()
	n.close = append(n.close, n.renewer.close)
	return n, nil
}

// redsyncRetry is the shortest pause of a waiter between two tries for a majority of Redis servers.
// With a shorter pause, tries get into each other's way: each try takes one server, and none takes
// two. With 100 µs, 500 µs and 2 ms there were equally many hand-overs between nodes, and the
// shorter the pause, the fewer locks in all.
const redsyncRetry = time.Millisecond

func redsyncOptions() []redsync.Option {
	return []redsync.Option{
		redsync.WithExpiry(TTL), redsync.WithTries(math.MaxInt),
		redsync.WithRetryDelayFunc(func(int) time.Duration { return redsyncRetry + randomPart(redsyncRetry) }),
	}
}

// Owner returns a node that waits for the answers of all servers. A try that fails fast leaves
// releases in flight, which may overtake the next try of the same caller and delete the key just
// set, since all tries of a call use the same value. Then the lock isn't on a majority any more:
// Unlock returns an error, and the lock excludes no other caller. So failing fast is only for
// uncontended keys.
func (n *redsyncNode) Owner(context.Context) (Node, error) {
	return &redsyncNode{sync: n.sync, opts: redsyncOptions(), renewer: n.renewer}, nil
}

func (n *redsyncNode) dial(ctx context.Context, kind, addr string) (redsyncredis.Pool, error) {
	if kind == RedsyncRueidis {
		c, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true, AlwaysPipelining: true, PipelineMultiplex: -1,
		})
		if err != nil {
			return nil, err
		}
		n.close = append(n.close, func() error { c.Close(); return nil })
		return rueidisPool{c}, nil
	}
	c := dialRedis(addr)
	n.close = append(n.close, c.Close)
	if err := wait(ctx, func() error { return c.Ping(ctx).Err() }); err != nil {
		return nil, err
	}
	if kind == RedsyncBatched {
		batched, err := c.AutoPipeline()
		if err != nil {
			return nil, err
		}
		return goredis.NewPool(batched), nil
	}
	return goredis.NewPool(c), nil
}

func (n *redsyncNode) Lock(ctx context.Context, key string) (Unlock, uint64, error) {
	m := n.sync.NewMutex(key, n.opts...)
	if err := m.LockContext(ctx); err != nil {
		return nil, 0, err
	}
	return func(ctx context.Context) error { return unlockRedsync(ctx, m) }, 0, nil
}

func unlockRedsync(ctx context.Context, m *redsync.Mutex) error {
	ok, err := m.UnlockContext(ctx)
	if err == nil && !ok {
		return errors.New("redsync: too few servers had the lock")
	}
	if ok {
		return nil // a majority has confirmed, whatever the last server says
	}
	return err
}

func (n *redsyncNode) Hold(ctx context.Context, key string) (Unlock, error) {
	m := n.sync.NewMutex(key, n.opts...)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	n.renewer.add(m)
	return func(ctx context.Context) error {
		n.renewer.remove(m)
		return unlockRedsync(ctx, m)
	}, nil
}

func (n *redsyncNode) Close() error {
	var err error
	for _, f := range n.close {
		err = errors.Join(err, f())
	}
	return err
}
