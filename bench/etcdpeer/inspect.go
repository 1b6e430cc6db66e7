package etcdpeer

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockmesh/lockmesh/locktest"
)

// line returns the prefix under which a Mutex stores a key for its holder and a key for each
// waiter: the oldest key has the lock.
func line(key string) string { return key + "/" }

// Held reports whether a key is held. Get is linearizable.
func (c *client) Held(ctx context.Context, key string) (bool, error) {
	r, err := c.etcd.Get(ctx, line(key), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return false, err
	}
	return r.Count > 0, nil
}

// Watch follows the etcd keys of a lock's holder and waiters. As for Mutex, the oldest key is the
// holder's. A deletion doesn't tell a release from the end of a session.
func (c *client) Watch(ctx context.Context, key string) (<-chan locktest.Change, error) {
	w := c.etcd.Watch(clientv3.WithRequireLeader(ctx), line(key), clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	if r, ok := <-w; !ok || r.Err() != nil || !r.Created {
		return nil, errors.Join(errors.New("the watch doesn't begin"), ctx.Err(), r.Err())
	}
	changes := make(chan locktest.Change)
	go func() {
		defer close(changes)
		say := func(m locktest.Change) {
			select {
			case changes <- m:
			case <-ctx.Done():
			}
		}
		var waiting []string // by creation
		for r := range w {
			if r.Err() != nil {
				say(locktest.Change{Missed: true})
				return
			}
			for _, e := range r.Events {
				name := string(e.Kv.Key)
				switch {
				case e.Type == mvccpb.PUT && e.IsCreate():
					if waiting = append(waiting, name); len(waiting) == 1 {
						say(locktest.Change{Granted: true})
					}
				case e.Type == mvccpb.DELETE:
					at := slices.Index(waiting, name)
					if at < 0 {
						continue
					}
					waiting = slices.Delete(waiting, at, at+1)
					if at > 0 {
						continue
					}
					say(locktest.Change{})
					if len(waiting) > 0 {
						say(locktest.Change{Granted: true})
					}
				}
			}
		}
	}()
	return changes, nil
}
