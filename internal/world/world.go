// Package world is the seam between a mesh and its environment: links, gossip, the state directory
// and the rate of dials. Package lockmesh joins the real world; tests join a world in memory, and
// so does package meshtest for the tests of others.
package world

import (
	"context"
	"net/netip"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// Links is the interface to a transport; [transport.Port] documents the methods.
type Links interface {
	AdvertiseAddr() string
	Dial(ctx context.Context, addr string, want vote.NodeID) (vote.Conn, error)
	Probe(ctx context.Context, addr string) (vote.SessionID, error)
	Queue(c vote.Conn, m *vote.Message)
	Flush(c vote.Conn, later bool)
	CloseConn(c vote.Conn)
	Know(addr netip.Addr)
	SetSecrets(secrets [][]byte) (gossipKeys [][]byte, err error)
	Stats() transport.Stats
	Finish()
	Close() error
}

var _ Links = (*transport.Port)(nil)

// StateDir stores the promises of a mesh's node;
// [github.com/lockmesh/lockmesh/internal/statedir.Dir] documents the methods.
type StateDir interface {
	Load(mesh string, name vote.NodeID) (st vote.DiskState, found bool, err error)
	Save(st *vote.DiskState) error
	Peers() []string
	Warnings() []string
	SavePeers(addrs []string) error
	Close() error
}

// World provides a mesh with links, gossip and a state directory.
type World struct {
	// State opens a state directory.
	State func(path string) (StateDir, error)
	// Listen opens the links. The context bounds look-ups of the node's own names.
	Listen func(context.Context, transport.Config) (Links, error)
	// Gossip receives the links returned by Listen.
	Gossip func(Links, member.Config) (member.Group, error)
	// Dials bounds how many dials all meshes of this world have under way; nil is no bound.
	Dials Turns
}

// Turns bounds how many dials are under way. Any goroutine may call the methods.
type Turns interface {
	// Take waits for the turn of a dial, or for the end of ctx, and returns a function that gives
	// the turn back; further calls of the function do nothing. The error is that of ctx, and then
	// no turn was taken.
	Take(ctx context.Context) (giveBack func(), err error)
}

// Join is a func(context.Context, lockmesh.Config, World) (*lockmesh.Mesh, error): [lockmesh.Join]
// in another world. Package lockmesh sets Join before main. Package lockmesh doesn't export it,
// since only tests have another world; and its type can't be written here, as lockmesh imports this
// package.
var Join any

// SteadyClock is an optional interface of the Clock of a configuration: a clock that measures
// elapsed time, however the clock was set. Voters then measure with the elapsed time, and holders
// with whichever of the two readings has run further, as with the clocks of the system. Code
// outside this module can't implement SteadyClock by accident, since [vote.Instant] is internal.
type SteadyClock interface {
	// Steady returns the time elapsed since a fixed moment.
	Steady() vote.Instant
}
