package memnet

import (
	"context"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/transport"
)

// group is a node's part in gossip. This gossip knows every node's state at once, but for
// [Network.SlowGossip], and reports each change of that state, as gossip over sockets does after a
// while.
type group struct {
	port *port
	cfg  member.Config
	self member.Member
	deaf bool

	// Guarded by port.net.mu.
	left bool
	told map[vote.NodeID]vote.Presence // the last reported state of each other node
}

var _ member.Group = (*group)(nil)

// joinGossip reports the new node to the nodes in the same gossip, and reports these nodes to the
// new node.
func (p *port) joinGossip(c member.Config) *group {
	n := p.net
	self := member.Member{Name: c.Self.Node, Incarnation: c.Self.Incarnation, Dir: c.Dir, Addr: p.cfg.Bind, State: vote.Alive}
	g := &group{port: p, cfg: c, self: self, told: make(map[vote.NodeID]vote.Presence)}
	n.mu.Lock()
	g.deaf = n.noGossip
	var all []news
	for _, o := range n.groups {
		if !g.knows(o) || g.state(o) != vote.Alive {
			continue
		}
		toThem, toUs := member.Joined, member.Joined
		switch {
		case o.self.Name == g.self.Name && o.port.process.dead:
			continue
		case o.self.Name == g.self.Name:
			toThem, toUs = member.NameConflict, member.NameConflict
		case o.told[g.self.Name] == vote.Alive:
			toThem = member.Updated
		}
		if toUs == member.Joined {
			g.told[o.self.Name], o.told[g.self.Name] = vote.Alive, vote.Alive
		}
		all = append(all, news{o, member.Event{Member: g.self, Kind: toThem}}, news{g, member.Event{Member: o.self, Kind: toUs}})
	}
	n.groups[g.self.Name] = g
	n.mu.Unlock()
	report(all)
	return g
}

// news is an event for a node.
type news struct {
	to    *group
	event member.Event
}

// report tells the nodes the news; net.mu isn't held.
func report(all []news) {
	for _, e := range all {
		e.to.cfg.Handler(e.event)
	}
}

// news returns the changes of state that the nodes haven't been told yet; a process that is paused
// is told later. n.mu is held.
func (n *Network) news() (all []news) {
	for _, g := range n.groups {
		if p := g.port; p.process.paused || p.process.dead || g.left || n.ports[p.cfg.Bind] != p {
			continue
		}
		for name, o := range n.groups {
			was, state := g.told[name], g.state(o)
			ends := state == vote.Failed && was == vote.Alive || state == vote.Left && was != vote.Unseen
			if o == g || was == state || state != vote.Alive && !ends || !g.knows(o) {
				continue
			}
			kind := member.Joined
			switch state {
			case vote.Failed:
				kind = member.MemberFailed
			case vote.Left:
				kind = member.MemberLeft
			}
			m := o.self
			m.State, g.told[name] = state, state
			all = append(all, news{g, member.Event{Member: m, Kind: kind}})
		}
	}
	return all
}

// knows reports whether two nodes are in the same gossip; net.mu is held.
func (g *group) knows(o *group) bool {
	a, b := g.port.cfg, o.port.cfg // gossip leaves what only a handshake knows to the handshake
	return !g.deaf && !o.deaf && differences(a.Terms, b.Terms, transport.WireVersion) == "" &&
		g.port.acceptsSecretOf(o.port) && o.port.acceptsSecretOf(g.port)
}

// state returns the state of another node as seen from this node; net.mu is held.
func (g *group) state(o *group) vote.Presence {
	n := g.port.net
	switch {
	case o.left:
		return vote.Left
	case n.areCut(g.port, o.port), n.areCut(o.port, g.port):
		return vote.Failed
	case o.port.process.isSeen():
		return vote.Alive
	case n.ports[o.port.cfg.Bind] != o.port, o.port.process.paused, o.port.process.dead:
		return vote.Failed
	}
	return vote.Alive
}

// Members returns the newest node of each name, and this node itself.
func (g *group) Members() []member.Member {
	n := g.port.net
	g.port.process.lock()
	defer n.mu.Unlock()
	self := g.self
	if g.left {
		self.State = vote.Left
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

// Keys returns which live nodes in the same gossip accept and send which secret.
func (g *group) Keys() []member.KeyUse {
	n := g.port.net
	g.port.process.lock()
	defer n.mu.Unlock()
	keys := map[vote.NodeID][]string{g.self.Name: g.port.keyIDs()}
	for name, o := range n.groups {
		if name != g.self.Name && g.knows(o) && g.state(o) == vote.Alive {
			keys[name] = o.port.keyIDs()
		}
	}
	return member.Uses(keys)
}

// SetKeys does nothing: the port's secrets count.
func (g *group) SetKeys([][]byte) error { return nil }

// SetDir changes this node's identity, and reports this to the other nodes.
func (g *group) SetDir(dir vote.Dir) {
	n := g.port.net
	g.port.process.lock()
	g.self.Dir = dir
	self := g.self
	var others []*group
	for name, o := range n.groups {
		if name != self.Name && g.knows(o) && g.state(o) == vote.Alive {
			others = append(others, o)
		}
	}
	n.mu.Unlock()
	for _, o := range others {
		o.cfg.Handler(member.Event{Member: self, Kind: member.Updated})
	}
}

// Ping answers for live nodes in the same gossip.
func (g *group) Ping(_ context.Context, name vote.NodeID) (time.Duration, error) {
	n := g.port.net
	g.port.process.lock()
	defer n.mu.Unlock()
	o := n.groups[name]
	switch {
	case name == g.self.Name || o == nil || !g.knows(o):
		return 0, member.ErrUnknown
	case g.state(o) != vote.Alive:
		return 0, member.ErrNoAnswer
	}
	return 0, nil
}

func (g *group) Leave(context.Context) error {
	g.port.process.lock()
	g.port.net.mu.Unlock()
	g.port.net.change(func() { g.left = true })
	return nil
}

func (g *group) Close() error { return nil }
