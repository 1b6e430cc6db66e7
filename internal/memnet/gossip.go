package memnet

import (
	"context"

	"github.com/lockmesh/lockmesh/member"
)

// group is a node's part in gossip. This gossip knows at once who is there; the only news that it passes on is that somebody has come,
// since nodes do nothing about any other.
type group struct {
	port *port
	cfg  member.Config
	self member.Member
	deaf bool

	left bool // guarded by port.net.mu
}

var _ member.Group = (*group)(nil)

// joinGossip tells those who hear each other of the new node, and the new node of them.
func (p *port) joinGossip(c member.Config) *group {
	n := p.net
	self := member.Member{Name: c.Self.Node, Life: c.Self.Life, Dir: c.Dir, Addr: p.cfg.Bind, State: member.Alive}
	g := &group{port: p, cfg: c, self: self}
	n.mu.Lock()
	g.deaf = n.noGossip
	back := n.groups[g.self.Name] != nil
	var others []*group
	for _, o := range n.groups {
		if g.knows(o) && g.state(o) == member.Alive {
			others = append(others, o)
		}
	}
	n.groups[g.self.Name] = g
	n.mu.Unlock()
	for _, o := range others {
		toThem, toUs := member.Joined, member.Joined
		switch {
		case o.self.Name == g.self.Name:
			toThem, toUs = member.NameConflict, member.NameConflict
		case back:
			toThem = member.Updated
		}
		o.cfg.Handler(member.Event{Member: g.self, Kind: toThem})
		g.cfg.Handler(member.Event{Member: o.self, Kind: toUs})
	}
	return g
}

// knows reports whether two nodes are in the same gossip; net.mu is held.
func (g *group) knows(o *group) bool {
	a, b := g.port.cfg, o.port.cfg
	return !g.deaf && !o.deaf && string(a.Secret) == string(b.Secret) && differences(a.Terms, b.Terms) == ""
}

// state returns how another looks from here; net.mu is held.
func (g *group) state(o *group) member.State {
	n := g.port.net
	switch {
	case o.left:
		return member.Left
	case n.ports[o.port.cfg.Bind] != o.port, o.port.process.paused, o.port.process.dead,
		n.isCut(g.self.Name, o.self.Name), n.isCut(o.self.Name, g.self.Name):
		return member.Failed
	}
	return member.Alive
}

// Members returns the newest of each name, and this node itself.
func (g *group) Members() []member.Member {
	n := g.port.net
	g.port.process.lock()
	defer n.mu.Unlock()
	self := g.self
	if g.left {
		self.State = member.Left
	}
	all := []member.Member{self}
	for name, o := range n.groups {
		if name != self.Name && g.knows(o) {
			m := o.self
			m.State = g.state(o)
			all = append(all, m)
		}
	}
	return all
}

func (g *group) Leave(context.Context) error {
	g.port.process.lock()
	defer g.port.net.mu.Unlock()
	g.left = true
	return nil
}

func (g *group) Close() error { return nil }
