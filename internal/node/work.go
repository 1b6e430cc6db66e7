package node

import "github.com/lockmesh/lockmesh/lease"

// Budget bounds the work of a node before its owner turns to urgent inputs again, in the unit of
// [lease.Budget].
const Budget = lease.Budget

// heard is the cost of processing an ordinary message: a microsecond or two.
const heard = 4

// Work returns the work done since the node's start. The owner feeds inputs to the node until Work
// has grown by Budget, and then looks for urgent inputs.
func (n *Node) Work() uint64 {
	w := n.work + n.req.Work()
	if n.voter != nil {
		w += n.voter.Work()
	}
	return w
}

// Busy reports whether the node has work to continue at once; each Tick performs a part of the
// work. The owner must not nap then, as it would after a due Tick without any effect.
func (n *Node) Busy() bool {
	return n.hasLocal() || n.req.Busy() || n.voter != nil && n.voter.Busy()
}

// Spend adds the owner's work on the node's events to Work, so that the owner stops in time.
func (n *Node) Spend(units int) { n.work += uint64(max(units, 0)) }
