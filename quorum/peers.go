package quorum

import (
	"cmp"
	"hash/fnv"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// peerList has the sessions at all voters in use. A voter keeps its place, which is the index in
// peers and in places, until movePeers; both lists are in order of the voters' names.
type peerList struct {
	self   vote.NodeID
	places []vote.Elector
	peers  []*peer
	distances
	refreshAt vote.Instant // when all sessions are refreshed next
	streams   vote.Stream  // the newest stream to any removed voter, which may come back
}

// movePeers gives the voters new places, and returns for each earlier place the new place of its
// voter, negative if none.
func (l *peerList) movePeers(places []vote.Elector) (to []int) {
	to = make([]int, len(l.places))
	for i, v := range l.places {
		to[i] = slices.Index(places, v)
	}
	peers := make([]*peer, len(places))
	for i, p := range l.peers {
		if to[i] < 0 {
			l.streams = max(l.streams, p.stream)
			continue
		}
		p.place = to[i]
		peers[p.place] = p
	}
	for i, v := range places {
		if peers[i] == nil {
			peers[i] = &peer{place: i, name: v.Name, dir: v.Dir, refreshAt: vote.Never, stream: l.streams}
		}
	}
	l.places, l.peers = places, peers
	l.firstPlace = l.beginning()
	l.sortByDistance()
	return to
}

// sortByDistance sorts the voters by their round trips.
func (l *peerList) sortByDistance() { l.setOrder(l.peers) }

// beginning returns the place of the voter with which this node begins, among voters at the same
// distance.
func (l *peerList) beginning() int {
	for i, p := range l.peers {
		if p.name == l.self {
			return i
		}
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(l.self))
	return int(h.Sum32() % uint32(max(len(l.peers), 1)))
}

// peerOf returns the voter of a name; nil if there is none.
func (l *peerList) peerOf(name vote.NodeID) *peer {
	i, ok := slices.BinarySearchFunc(l.peers, name, func(p *peer, name vote.NodeID) int { return cmp.Compare(p.name, name) })
	if !ok {
		return nil
	}
	return l.peers[i]
}

// peerAt returns the voter at the other end of a connection. There are few voters, and comparing
// numbers is faster than looking up names.
func (l *peerList) peerAt(conn vote.Conn) *peer {
	for _, p := range l.peers {
		if p.conn == conn && p.up() {
			return p
		}
	}
	return nil
}

// Knows reports whether a node of that name is among the voters in use by this requester.
func (l *peerList) Knows(name vote.NodeID) bool { return l.peerOf(name) != nil }

// Linked reports whether there is a connection to the voter of that name.
func (l *peerList) Linked(name vote.NodeID) bool {
	p := l.peerOf(name)
	return p != nil && p.up()
}

// Peers returns the voters to which this node wants connections, in order of their names.
func (l *peerList) Peers() []vote.Elector { return l.places }
