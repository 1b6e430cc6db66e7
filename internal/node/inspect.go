package node

import "github.com/lockmesh/lockmesh/internal/vote"

// Tap makes the node call f with every message from its voter to any connection, in the order of
// sending, and with every message from the node's own requester to the voter, before the voter
// processes the message. Traffic between two nodes can be observed on the wire; Tap is for checks
// that need all inputs and outputs of a voter. f must not change the message.
func (n *Node) Tap(f func(c vote.Conn, m *vote.Message)) { n.tap = f }
