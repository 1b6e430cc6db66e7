package quorum

import (
	"cmp"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// localQueue is the local queue for a key: one request is sent to the voters, and the other
// requests of this node's callers wait behind it here. So a key with a hundred contending
// goroutines costs the mesh no more than a key with one.
//
// When the lease is released while no other node waits for the key, it is handed off to the next
// request in the local queue without a message, with the next token of its token block, as long as
// the block has tokens. When another node waits, or the block is used up, the next request is sent
// to the voters, and after it, on the same streams, the release of the lease. The stamp says when
// the request was made, so older requests of other nodes are granted first, and no request is
// overtaken because only one of the queue was known to the voters.
//
// Most local queues have nothing but a front: the request known to the voters, in
// localQueues.fronts. There is a localQueue only if requests wait behind the front, or if its lease
// was handed off.
type localQueue struct {
	waiting  sliding[*request] // the requests behind the front, in order of their stamps
	handOffs vote.Token        // how often the front's lease was handed off
}

// localQueues has the local queues of all keys.
type localQueues struct {
	// The request at the front of each key's local queue.
	fronts map[vote.Key]*request
	// Local queues with more than a front.
	queues map[vote.Key]*localQueue
	// Upper bounds of the sizes of these maps so far; see drop.
	mostFronts, mostQueues int
	freeQueues             pool[localQueue]
}

// queueable reports whether a request may be queued with others of its kind: the voters would be
// told the same for all of them.
func (r *request) queueable() bool {
	if r.mode != vote.Exclusive || r.cold == nil {
		return r.mode == vote.Exclusive
	}
	a := &r.cold.opts
	return a.Beside == 0 && a.Length == 0 && a.Delay == 0 && a.MinHold == 0 && a.EndsAfter == 0 && !a.Revoke && len(a.Value) == 0
}

// enqueueLocal queues a new request behind earlier requests of this node for the same key, and
// reports whether the request was handled here: queued, or failed at once (a TryLock). Otherwise
// the request must be sent to the voters, and later requests may be queued behind it.
func (q *Requester) enqueueLocal(r *request) bool {
	if q.cfg.NoLocalQueue || !r.queueable() {
		return false
	}
	front := q.fronts[r.key]
	if r.try {
		if front == nil || front.state != stateWon {
			return false // only the voters know whether the key is free
		}
		q.emit(EventFailed, r.number).Wait = Wait{WaitHeld, "another caller on this node holds " +
			"the key"}
		q.forgetUnsent(r) // no voter knows of the request
		return true
	}
	if front == nil {
		r.moveTo(localFront)
		q.addFront(r)
		return false
	}
	if front.state == statePending && r.time < front.time {
		// By its stamp the request belongs before the front: the front was stamped before the
		// voters' clocks were known, or the wall clock was set back since. (Found by a simulated
		// world.)
		return false
	}
	r.moveTo(localQueued)
	l := q.localQueueOf(r.key)
	l.waiting.insert(l.indexOf(r), r)
	return true
}

// indexOf returns the place of a request in the queue, or the place for a new request.
func (l *localQueue) indexOf(r *request) int {
	i, _ := slices.BinarySearchFunc(l.waiting.list(), r, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.number, b.number))
	})
	return i
}

// addFront makes a request the front of the local queue of a key without a front.
func (t *localQueues) addFront(r *request) {
	t.fronts[r.key] = r
	t.mostFronts = max(t.mostFronts, len(t.fronts))
}

// dropFront removes the front of a key's local queue.
func (t *localQueues) dropFront(k vote.Key) { t.fronts = drop(t.fronts, k, &t.mostFronts) }

// localQueueOf returns the local queue of a key with a front, and makes the queue if missing.
func (t *localQueues) localQueueOf(k vote.Key) *localQueue {
	l := t.queues[k]
	if l == nil {
		if l = t.freeQueues.take(); l == nil {
			l = &localQueue{}
		}
		t.queues[k] = l
		t.mostQueues = max(t.mostQueues, len(t.queues))
	}
	return l
}

// dropLocalQueue forgets a local queue with nothing but a front.
func (t *localQueues) dropLocalQueue(k vote.Key, l *localQueue) {
	if l.waiting.len() == 0 && l.handOffs == 0 {
		t.queues = drop(t.queues, k, &t.mostQueues)
		if cap(l.waiting.room) <= roomyList {
			t.freeQueues.give(l)
		}
	}
}

// handOff hands a released lease off to the next request in the local queue, and reports whether it
// did.
func (q *Requester) handOff(r *request) bool {
	// A lease with a value is not handed off: an inspection would find the value at the voters
	// after the next lease was granted.
	if r.local != localFront || r.state != stateWon || r.mode != vote.Exclusive || r.contended || r.version() > 0 {
		return false
	}
	l := q.queues[r.key]
	// A queued request that has won is the front.
	if l == nil || l.waiting.len() == 0 || l.handOffs+1 >= vote.BlockSize {
		return false
	}
	next := *l.waiting.first()
	if next.number > r.newestAtSend && next.since >= q.supportedAt(r) {
		return false
	}
	l.waiting.pop()
	l.handOffs++
	q.count.HandOffs++
	q.count.Wins++
	q.emit(EventReleased, r.caller)
	q.changeCaller(r, next.number)
	q.forgetUnsent(next)
	e := q.emit(EventGranted, r.caller)
	e.Token, e.Group = r.token.First()+l.handOffs, r.group.id
	return true
}

// handOffs returns how often a lease was handed off.
func (q *Requester) handOffs(r *request) vote.Token {
	if v := r.version(); v >= vote.VersionCounted && v < vote.VersionEnded {
		_, handOffs := vote.ReadVersion(v)
		return handOffs // the local queue forgets the number when the lease becomes a reader
	}
	if l := q.queues[r.key]; l != nil && r.local == localFront {
		return l.handOffs
	}
	return 0
}

// supportedAt returns an instant at which a majority surely supported a lease: when the refreshes
// behind its present validity were sent.
//
// A lease is handed off only to requests made before this instant, or before the lease's own
// request was sent to the voters. A later request might be made long after another node was granted
// the key, since this node was paused without a trace in any of its clocks; the request then needs
// a larger token. Nor does renewed support help: once a session at a voter has begun anew
// meanwhile, the lease is no longer handed off. (Found beyond the assumptions.)
func (l *requestLayer) supportedAt(r *request) vote.Instant {
	return r.group.until.Add(vote.Margin(l.leastTTL) - vote.Validity(l.longestGrant()))
}

// leaveLocalQueue removes a request from its local queue, before the request ends. If the request
// was the front, the next request becomes the front, and is sent to the voters before the end of
// the old front, so that later requests of other nodes don't get ahead.
func (q *Requester) leaveLocalQueue(r *request) {
	was := r.local
	if was == localNone {
		return
	}
	r.moveTo(localNone)
	l := q.queues[r.key]
	if was == localQueued {
		l.waiting.remove(l.indexOf(r))
		q.dropLocalQueue(r.key, l)
		return
	}
	if l != nil {
		l.handOffs = 0
	}
	if l == nil || l.waiting.len() == 0 {
		q.dropFront(r.key)
		if l != nil {
			q.dropLocalQueue(r.key, l)
		}
		return
	}
	next := *l.waiting.first()
	l.waiting.pop()
	q.fronts[next.key] = next
	q.dropLocalQueue(next.key, l)
	next.moveTo(localFront)
	q.deliverer().submit(next)
}
