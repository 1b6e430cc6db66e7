// Package world is the seam between a mesh and what is outside of it: sockets, gossip and clocks. Package lockmesh joins the real
// world; tests, and package meshtest for the tests of others, join one in memory.
package world

import (
	"context"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// Links is what a mesh needs of a transport; see [transport.Port], which says what each method promises.
type Links interface {
	AdvertiseAddr() string
	Dial(ctx context.Context, addr string, want vote.NodeID) (vote.Conn, error)
	Greet(ctx context.Context, addr string) (vote.SessionID, error)
	Queue(c vote.Conn, m *vote.Message)
	Flush(c vote.Conn, later bool)
	CloseConn(c vote.Conn)
	Close() error
}

var _ Links = (*transport.Port)(nil)

// StateDir is where a mesh keeps what its node has promised; see [github.com/lockmesh/lockmesh/internal/statedir.Dir], which says what each method promises.
type StateDir interface {
	Load(mesh string, name vote.NodeID) (st vote.State, found bool, err error)
	Save(st *vote.State) error
	Peers() []string
	SavePeers(addrs []string) error
	Close() error
}

// World is where a mesh gets its links, its gossip and its state directory from.
type World struct {
	// State opens a state directory.
	State  func(path string) (StateDir, error)
	Listen func(transport.Config) (Links, error)
	// Gossip is given what Listen has returned.
	Gossip func(Links, member.Config) (member.Group, error)
}

// Join is a func(context.Context, lockmesh.Config, World) (*lockmesh.Mesh, error): [lockmesh.Join] in another world. Package lockmesh sets
// it before main. It isn't exported there, since nothing but a test has another world; and its type can't be written here, as lockmesh
// imports this package.
var Join any

// SteadyClock is what the Clock of a configuration may be besides: one that knows how much time has passed, however it was set. Voters then
// measure with that, and holders with whichever of both has run further, as with the clocks of the system. Nobody outside of this
// module can have such a clock by accident, since [vote.Instant] is internal.
type SteadyClock interface {
	// Steady returns how much time has passed since some moment.
	Steady() vote.Instant
}
