package node

import "github.com/lockmesh/lockmesh/internal/vote"

// Tap has f called with every message that this node's voter says, to whomever and in the order in which it says them, and with
// those that it hears from this node's own requester, before it hears them. Anybody can listen between two nodes; this is for
// checks that want to know all that a voter is told and answers. f must not change the message.
func (n *Node) Tap(f func(c vote.Conn, m *vote.Message)) { n.tap = f }
