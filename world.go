package lockmesh

import (
	"context"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// links is what a mesh needs of a transport; see [transport.Port], which says what each method promises.
type links interface {
	AdvertiseAddr() string
	Dial(ctx context.Context, addr string, want vote.NodeID) (vote.Conn, error)
	Greet(ctx context.Context, addr string) (vote.SessionID, error)
	Send(c vote.Conn, m *vote.Message)
	CloseConn(c vote.Conn)
	Close() error
}

var _ links = (*transport.Port)(nil)

// world is where a mesh gets its links and its gossip from. Tests have one without sockets.
type world struct {
	listen func(transport.Config) (links, error)
	gossip func(links, member.Config) (member.Group, error)
}

var realWorld = world{
	listen: func(c transport.Config) (links, error) {
		port, err := transport.Listen(c)
		if err != nil {
			return nil, err // and no links that are a nil *Port
		}
		return port, nil
	},
	gossip: func(l links, c member.Config) (member.Group, error) {
		port := l.(*transport.Port)
		c.Transport, c.Key = port.Gossip(), port.GossipKey()
		group, err := member.Start(c)
		if err != nil {
			return nil, err
		}
		return group, nil
	},
}
