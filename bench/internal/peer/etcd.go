package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcdNode is a session with etcd, with a client connected directly to the leader.
type etcdNode struct {
	client  *clientv3.Client
	session *concurrency.Session
	shared  bool // another node owns the client
}

func openEtcd(ctx context.Context, s Spec) (Node, error) {
	addr, err := etcdLeader(ctx, s.Addrs)
	if err != nil {
		return nil, err
	}
	c, err := dialEtcd(addr)
	if err != nil {
		return nil, err
	}
	n := &etcdNode{client: c}
	if err := n.open(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return n, nil
}

func (n *etcdNode) open(ctx context.Context) error {
	// Grant is a separate call, since NewSession's context lasts as long as the session.
	lease, err := n.client.Grant(ctx, int64(TTL/time.Second))
	if err != nil {
		return err
	}
	n.session, err = concurrency.NewSession(n.client, concurrency.WithLease(lease.ID))
	return err
}

// Owner returns another session: locks of the same session don't exclude each other.
func (n *etcdNode) Owner(ctx context.Context) (Node, error) {
	o := &etcdNode{client: n.client, shared: true}
	if err := o.open(ctx); err != nil {
		return nil, err
	}
	return o, nil
}

func (n *etcdNode) Lock(ctx context.Context, key string) (Unlock, uint64, error) {
	m := concurrency.NewMutex(n.session, key)
	if err := m.Lock(ctx); err != nil {
		return nil, 0, err
	}
	return m.Unlock, uint64(m.Header().Revision), nil
}

func (n *etcdNode) Close() error {
	err := n.session.Close()
	if !n.shared {
		err = errors.Join(err, n.client.Close())
	}
	return err
}

func dialEtcd(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: TTL, Logger: zap.NewNop()})
}

// etcdLeader waits until there is a leader, and returns the leader's address.
func etcdLeader(ctx context.Context, addrs []string) (leader string, err error) {
	var clients []*clientv3.Client
	defer func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}()
	for _, addr := range addrs {
		c, err := dialEtcd(addr)
		if err != nil {
			return "", err
		}
		clients = append(clients, c)
	}
	err = wait(ctx, func() error {
		for i, c := range clients {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			status, err := c.Status(ctx, addrs[i])
			cancel()
			if err != nil {
				return err
			}
			if status.Leader == status.Header.MemberId {
				leader = addrs[i]
				return nil
			}
		}
		return fmt.Errorf("etcd has no leader yet")
	})
	return leader, err
}
