package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// A request with a length whose vote has outlasted the length has lapsed here, until a message of
// its owner says that the request goes on: for a lease, a report of the win, an extension, or its
// entry in a sync; for a request that hasn't won, any refresh as well. Until then the request waits
// in the queue, gets no vote, keeps no other request from the key, and isn't shown to other nodes.
// Otherwise the request of a node that has crashed, is cut off or hangs would have its vote again
// whenever the queue is empty for a moment, and a lease that is over would be shown as held, both
// until the end of the node's session.

// lapse marks an entry as lapsed. The entry has no vote any more, and isn't in the queue yet.
func (l *sessionLayer) lapse(e *entry) {
	e.voteLapsed = true
	if e.held {
		return // a refresh says nothing about the lease
	}
	if e.s.lapsed == nil {
		e.s.lapsed = make(map[vote.Number]struct{})
	}
	e.s.lapsed[e.number] = struct{}{}
}

// reviveWaiting lets a lapsed request that hasn't won go on, after a refresh.
func reviveWaiting(v *Voter, e *entry) {
	if e.voteLapsed && !e.held {
		v.revive(e)
		v.scheduleRequest(e)
	}
}

// revive lets a lapsed request go on.
func (l *sessionLayer) revive(e *entry) {
	if !e.voteLapsed {
		return
	}
	if e.voteLapsed = false; e.clashes() {
		l.settleClash(e.key) // upgrades that came meanwhile weren't rejected
	}
}
