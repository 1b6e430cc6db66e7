package peer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// TTL is how long a lock of any service outlives its holder: lockmesh's default.
const TTL = 10 * time.Second

// Unlock releases a lock, and returns when the service has confirmed the release.
type Unlock func(context.Context) error

// Node is a client of a service. Its methods may be called from any goroutine.
type Node interface {
	// Lock waits until the key is held. The token is zero if the service has no tokens.
	Lock(ctx context.Context, key string) (unlock Unlock, token uint64, err error)
	// Close ends the node; its locks are free sooner or later.
	Close() error
}

// Owners is a node with callers that need separate owners to exclude each other.
type Owners interface {
	// Owner returns another owner on the same connections, usable until the node is closed.
	Owner(ctx context.Context) (Node, error)
}

// Holder is a node with locks that expire unless the program renews the locks.
type Holder interface {
	// Hold is Lock, and also renews the lock.
	Hold(ctx context.Context, key string) (Unlock, error)
}

// Limit is no lock service but the lower bound for any: peers that echo all input.
type Limit interface {
	// Ask sends a small message to all peers, and returns with the first answer.
	Ask() error
}

// Spec describes the node to run in a process.
type Spec struct {
	Service string        // one of the kinds below
	Name    string        // lockmesh: the node's name
	Voters  []string      // lockmesh
	Peers   []string      // lockmesh: addresses of other nodes
	Secret  string        // lockmesh: empty for none
	MaxTTL  time.Duration // lockmesh: how long a voter's startup quarantine is
	Addrs   []string      // others: the servers' addresses
}

// The kinds of nodes.
const (
	Lockmesh         = "lockmesh"
	Redislock        = "redislock"
	RedislockBatched = "redislock-batched"
	Redsync          = "redsync"
	RedsyncBatched   = "redsync-batched"
	RedsyncRueidis   = "redsync-rueidis"
	Etcd             = "etcd"
	Echo             = "echo"
)

// Open makes a node, and returns when the node can lock; only a lockmesh node has yet to become
// ready, see [lockmesh.Mesh.Ready].
func Open(ctx context.Context, s Spec) (Node, error) {
	switch s.Service {
	case Lockmesh:
		return openLockmesh(ctx, s)
	case Redislock, RedislockBatched:
		return openRedislock(ctx, s)
	case Redsync, RedsyncBatched, RedsyncRueidis:
		return openRedsync(ctx, s)
	case Etcd:
		return openEtcd(ctx, s)
	case Echo:
		return openEcho(ctx, s)
	}
	return nil, fmt.Errorf("no such kind of node: %q", s.Service)
}

// wait calls ready until ready returns nil. When ctx ends, wait returns the last error, too.
func wait(ctx context.Context, ready func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}
