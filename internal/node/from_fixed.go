package node

import (
	"maps"
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// fromFixed is the state of a converting node: a node on its way from a fixed list of voters to
// dynamic membership (package electorate, from_fixed.go). A converting node itself applies version
// 1 of the electorate, and translates for fixed nodes, connection by connection: a fixed node knows
// no version and no directories, so both are zero in all messages to and from it.
//
// From version 2 on a converting node parts from fixed nodes: it closes their connections, and
// takes no message from them and gives none.
type fromFixed struct {
	converting bool
	fixed      map[vote.Conn]vote.NodeID // the connections to fixed nodes
	parted     bool                      // the connections to fixed nodes have been closed
	translated vote.Message              // the message of a fixed node under way, translated
}

// FixedPeer reports that the node at the other end of a connection has a fixed electorate,
// whichever side dialed. The report comes before any message of the connection, and before Link.
func (n *Node) FixedPeer(conn vote.Conn, peer vote.NodeID) {
	if n.fixed == nil {
		n.fixed = make(map[vote.Conn]vote.NodeID)
	}
	n.fixed[conn] = peer
	if !n.takesFixed() {
		n.out = append(n.out, vote.Outbound{Conn: conn, Close: true})
	}
}

// Converting reports whether this node is on its way from a fixed list to dynamic membership.
func (n *Node) Converting() bool { return n.converting }

// Converted reports whether this converting node knows that the list isn't the electorate any more,
// so that the node takes no connections of fixed nodes.
func (n *Node) Converted() bool { return n.converting && n.elect.Known().Version > 1 }

// takesFixed reports whether this node talks to fixed nodes over connections that were reported to
// FixedPeer.
func (n *Node) takesFixed() bool { return n.converting && !n.Converted() }

// isFixed reports whether a connection leads to a fixed node.
func (n *Node) isFixed(conn vote.Conn) bool {
	_, ok := n.fixed[conn]
	return ok
}

// part closes the connections to fixed nodes as soon as this node knows version 2.
func (n *Node) part(now vote.Now) {
	if n.parted || !n.Converted() {
		return
	}
	n.parted = true
	for _, conn := range slices.Sorted(maps.Keys(n.fixed)) {
		n.out = append(n.out, vote.Outbound{Conn: conn, Close: true})
		n.unlink(now, conn)
	}
}

// passes reports whether a message may pass between this node and a fixed one. A fixed node has no
// say in electorates, and would make nothing of what is said about them.
func (n *Node) passes(m *vote.Message) bool {
	return n.takesFixed() && !m.Kind.IsConsensus() && m.Reason != vote.ReasonOldCopy
}

// fromFixedPeer returns a message of a fixed node in the form that other nodes with version 1 send;
// nil if the message is to be ignored. The result is valid until the next call.
func (n *Node) fromFixedPeer(conn vote.Conn, m *vote.Message) *vote.Message {
	if !n.passes(m) {
		return nil
	}
	first := n.elect.Known()
	n.translated = *m
	n.translated.Epoch = first.Version
	n.translated.Dir = dirOf(first, n.fixed[conn]) // counts in the answer to a sync alone
	return &n.translated
}

// toFixedPeer puts an outgoing message into the form in which fixed nodes send; it reports false if
// the message isn't for them.
func (n *Node) toFixedPeer(m *vote.Message) bool {
	if !n.passes(m) {
		return false
	}
	m.Epoch, m.Dir = 0, 0
	return true
}

// dirOf returns the identity of a voter's directory; zero if the electorate has no such voter.
func dirOf(e *vote.Electorate, name vote.NodeID) vote.Dir {
	for _, v := range e.Voters {
		if v.Name == name {
			return v.Dir
		}
	}
	return 0
}

// addFixed adds to the status of a converting node which fixed nodes it is connected to: these must
// be restarted before the second restart of any node.
func (n *Node) addFixed(st *electorate.Status) {
	if !n.takesFixed() || len(n.fixed) == 0 {
		return
	}
	var names []string
	for _, name := range slices.Compact(slices.Sorted(maps.Values(n.fixed))) {
		names = append(names, string(name))
	}
	st.Change += "; still fixed: " + strings.Join(names, ", ")
}
