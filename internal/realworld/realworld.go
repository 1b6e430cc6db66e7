// Package realworld provides a mesh with the sockets and disks of the machine. It is part of
// lockmesh's implementation, without a compatibility promise.
package realworld

import (
	"context"

	"github.com/lockmesh/lockmesh/internal/discovery"
	"github.com/lockmesh/lockmesh/internal/statedir"
	"github.com/lockmesh/lockmesh/internal/world"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// World has sockets and disks. Tests may use a world in memory instead.
var World = world.World{
	Dials: discovery.NewSlots(),
	State: func(path string) (world.StateDir, error) {
		dir, err := statedir.Open(path)
		if err != nil {
			return nil, err
		}
		return dir, nil
	},
	Listen: func(ctx context.Context, c transport.Config) (world.Links, error) {
		port, err := transport.Listen(ctx, c)
		if err != nil {
			return nil, err // not an interface with a nil *Port
		}
		return port, nil
	},
	Gossip: gossipIn(new(member.ProcessGroups)),
}

// gossipIn returns a [world.World.Gossip] that counts all groups of the process.
func gossipIn(groups *member.ProcessGroups) func(world.Links, member.Config) (member.Group, error) {
	return func(l world.Links, c member.Config) (member.Group, error) {
		port := l.(*transport.Port)
		c.Transport, c.Keys, c.Groups = port.Gossip(), port.GossipKeys(), groups
		group, err := member.Start(c)
		if err != nil {
			return nil, err
		}
		return group, nil
	}
}
