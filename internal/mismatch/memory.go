package mismatch

import (
	"cmp"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	// maxPeers bounds how many names are remembered. The names of short-lived processes may be
	// drawn at random, so a mesh sees any number of names; few of them matter, see weight.
	maxPeers = 4096

	// maxIdle bounds how many configurations without a known node are remembered. A mesh sees a
	// handful in its lifetime; a node restarted again and again with a new configuration brings
	// more. Configurations with a known node are bounded by maxPeers.
	maxIdle = 64
)

// weight says how much depends on the memory of a node; the lightest nodes are forgotten first.
type weight uint8

const (
	// weightless: no decision depends on the node. It votes under no other configuration, and is
	// on no list.
	weightless weight = iota
	// listed: the node is on the list of another configuration, and doesn't apply that list. If
	// the node is forgotten, the other configuration may only seem stronger.
	listed
	// opposed: the node may vote under another configuration; see lost.
	opposed
	// ours: the node is on our own list. Such nodes are never forgotten: a list is shorter than
	// maxPeers.
	ours
)

// lost sums up the forgotten voters of other configurations. A voter that is forgotten may still
// count, so a voter of ours that waits goes on waiting: until its process ends, unless our
// configuration decides or outnumbers the forgotten voters, and none of these counted.
type lost struct {
	met      int
	counting int
	shown    *peer // the voter named to the user; nil if none was forgotten
}

// remember records a node with a new name. If there are too many names, the node of the least
// weight is forgotten, or not recorded: of equals the node met the longest ago.
func (m *Machine) remember(p *peer) {
	m.peers[p.sighting.Peer.Node] = p
	if len(m.peers) <= maxPeers {
		return
	}
	onLists := make(map[vote.NodeID]bool)
	for _, terms := range m.others {
		for _, v := range terms.Voters {
			onLists[v] = true
		}
	}
	var least *peer
	var weighs weight
	for _, q := range m.peers {
		w := m.weightOf(q, onLists)
		if least == nil || cmp.Or(cmp.Compare(w, weighs), cmp.Compare(q.at, least.at), cmp.Compare(q.sighting.Peer.Node, least.sighting.Peer.Node)) < 0 {
			least, weighs = q, w
		}
	}
	delete(m.peers, least.sighting.Peer.Node)
	if weighs == opposed {
		m.lose(least)
	}
}

// lose takes a forgotten voter of another configuration into account.
func (m *Machine) lose(p *peer) {
	m.lost.met++
	if p.counts() {
		m.lost.counting++
	}
	if p.counts() || m.lost.counting == 0 {
		m.lost.shown = p
	}
}

// weightOf returns the weight of a node, given the names on the lists of other configurations.
func (m *Machine) weightOf(p *peer, onLists map[vote.NodeID]bool) weight {
	switch name := p.sighting.Peer.Node; {
	case m.terms.Has(name):
		return ours
	case m.isOpposed(p):
		return opposed
	case onLists[name]:
		return listed
	}
	return weightless
}

// verdictOnLost returns the effect of the forgotten voters, as though all of them had the same
// configuration, and that configuration a majority.
func (m *Machine) verdictOnLost() verdict {
	if m.lost.shown == nil {
		return harmless
	}
	return m.verdict(m.lost.met, m.lost.counting)
}

// forgetIdle forgets configurations without a known node, if there are too many. Such a
// configuration has no majority, whatever its list of voters. Only the duration of its promises can
// still matter, so the largest MaxTTL is kept.
func (m *Machine) forgetIdle() {
	if len(m.others) <= maxIdle {
		return
	}
	seen := m.byTerms()
	var idle []string
	for _, key := range m.otherKeys() {
		if len(seen[key]) == 0 {
			idle = append(idle, key)
		}
	}
	for _, key := range idle[:max(len(idle)-maxIdle, 0)] {
		m.longest = max(m.longest, m.others[key].MaxTTL)
		delete(m.others, key)
	}
}
