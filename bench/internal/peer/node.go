// Package peer makes one interface of the lock services that are compared: a node is one client of a service, in a process of its own.
package peer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// TTL is how long a lock of any service outlives its holder: lockmesh's default.
const TTL = 10 * time.Second

// Unlock gives a lock back, and returns when the service has confirmed.
type Unlock func(context.Context) error

// Node is one client of a service. Its methods may be called from any goroutine.
type Node interface {
	// Lock waits until the key is held. The token is zero where the service has none.
	Lock(ctx context.Context, key string) (unlock Unlock, token uint64, err error)
	// Close ends the node, and what it holds is free sooner or later.
	Close() error
}

// Owners is a node whose callers need owners of their own to exclude one another.
type Owners interface {
	// Owner returns another owner on the same connections, which ends with the node.
	Owner(ctx context.Context) (Node, error)
}

// Holder is a node whose locks don't last unless the program that holds them does something about it.
type Holder interface {
	// Hold is Lock, and keeps the lock up.
	Hold(ctx context.Context, key string) (Unlock, error)
}

// Limit is no lock service, but what none can go below: peers that echo what they are sent.
type Limit interface {
	// Ask sends a small message to all peers, and returns with the first answer.
	Ask() error
}

// Spec says which node a process is to be.
type Spec struct {
	Service string        // one of the kinds below
	Name    string        // lockmesh: the node's
	Voters  []string      // lockmesh
	Peers   []string      // lockmesh: where others are
	Secret  string        // lockmesh: empty is none
	MaxTTL  time.Duration // lockmesh: how long a voter is quiet
	Addrs   []string      // others: where the servers are
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

// Open makes a node, and returns when it can lock.
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

// wait calls ready until it returns nil, and gives its last error when ctx ends.
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
