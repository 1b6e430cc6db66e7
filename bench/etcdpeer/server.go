// Package etcdpeer makes etcd a service that locktest can examine: a server in this process, and the locks of client/v3/concurrency.
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
	// sessionTTL is the least that etcd takes, in its unit of whole seconds.
	sessionTTL = 1

	// TTL is for how long a lock outlives a client at most: its session, and the half second in which the server looks for those that have ended,
	// and the time until the deletion is agreed on.
	TTL = 1500 * time.Millisecond

	// The server is told to expect a network as quick as loopback, since no session is shorter than one and a half elections.
	tickMillis, electionMillis = 50, 500
)

// Service is an etcd server of one member. More of them would change what failures of servers do, which isn't examined.
type Service struct {
	etcd *embed.Etcd
	own  *clientv3.Client // for looking, past all that cuts clients off
}

// Start starts a server on loopback that keeps its data in dir. End it with Close.
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
	if s.own, err = dial(s.addr()); err != nil {
		etcd.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the server.
func (s *Service) Close() error {
	err := s.own.Close()
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

// Client returns a client with a connection and a session of its own.
func (s *Service) Client(ctx context.Context) (locktest.Client, error) {
	way, err := newGate(s.addr())
	if err != nil {
		return nil, err
	}
	etcd, err := dial(way.addr())
	if err != nil {
		return nil, errors.Join(err, way.close())
	}
	c := &client{way: way, etcd: etcd}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// IsHeld reports whether a TryLock failed because another session has the key.
func (s *Service) IsHeld(err error) bool { return errors.Is(err, concurrency.ErrLocked) }

// Waiting counts the keys below a lock's name: the oldest is the holder's, and the others are those who wait.
func (s *Service) Waiting(ctx context.Context, key string) (int, error) {
	r, err := s.own.Get(ctx, key+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return max(0, int(r.Count)-1), nil
}
