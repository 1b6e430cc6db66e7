package etcdpeer

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/lockmesh/lockmesh/locktest"
)

const (
	// sessionTTL is the shortest TTL accepted by etcd, in its unit of whole seconds.
	sessionTTL = 1

	// TTL is the longest time for which a lock outlives a client: the session's TTL, the half
	// second between the server's searches for ended sessions, and the time to agree on the
	// deletion.
	TTL = 1500 * time.Millisecond

	// The server is configured for a network as quick as loopback, since a session lasts at least
	// one and a half elections.
	tickMillis, electionMillis = 50, 500
)

// Service is an etcd server of one member. More members would only matter for server failures,
// which aren't examined.
type Service struct {
	etcd      *embed.Etcd
	inspector *clientv3.Client // for inspections, unaffected by cuts of clients
}

// Start starts a server on loopback that keeps its data in dir. End the server with Close.
func Start(ctx context.Context, dir string) (*Service, error) {
	cfg := embed.NewConfig()
	cfg.Dir, cfg.TickMs, cfg.ElectionMs = dir, tickMillis, electionMillis
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	free := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{free}, []url.URL{free}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{free}, []url.URL{free}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("etcdpeer: %w", err)
	}
	s := &Service{etcd: etcd}
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		etcd.Close()
		return nil, fmt.Errorf("etcdpeer: %w", err)
	case <-ctx.Done():
		etcd.Close()
		return nil, fmt.Errorf("etcdpeer: the server isn't ready: %w", ctx.Err())
	}
	if s.inspector, err = dial(s.addr()); err != nil {
		etcd.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the server.
func (s *Service) Close() error {
	err := s.inspector.Close()
	s.etcd.Close()
	return err
}

func (s *Service) addr() string { return s.etcd.Clients[0].Addr().String() }

func dial(addr string) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("etcdpeer: %w", err)
	}
	return c, nil
}

// Client returns a client with its own connection and session.
func (s *Service) Client(ctx context.Context) (locktest.Client, error) {
	way, err := newProxy(s.addr())
	if err != nil {
		return nil, err
	}
	etcd, err := dial(way.addr())
	if err != nil {
		return nil, errors.Join(err, way.close())
	}
	c := &client{proxy: way, etcd: etcd}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// IsHeld reports whether a TryLock failed because another session has the key.
func (s *Service) IsHeld(err error) bool { return errors.Is(err, concurrency.ErrLocked) }

// Waiting counts the keys below a lock's name: the oldest is the holder's, and the others belong to
// waiters.
func (s *Service) Waiting(ctx context.Context, key string) (int, error) {
	r, err := s.inspector.Get(ctx, key+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return max(0, int(r.Count)-1), nil
}
