package lease

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// key is the state of a lock at this voter. The struct is kept small, for the same reason as entry.
type key struct {
	name vote.Key
	// votes are the votes for the key, in order of serials. All are compatible with each other, and
	// permits have different slots. A request has one live vote at most, and may have residual
	// votes.
	votes    entryList
	queue    entryList      // the waiting requests, in order, without those in answered
	answered *answeredTries // the waiting TryLocks that were told of a lease; nil if there are none
	highest  vote.Token     // the largest token proposed or confirmed here
	over     vote.Token     // the largest token of an exclusive lease that has ended here
	// endedShared has the tokens of ended shared leases while other leases go on, nil if there are
	// none; see unique.
	endedShared *[]vote.Token
	idleAt      vote.Instant // when the key may be forgotten
	tries       uint32       // TryLocks in the three lists; there is no memory for more than 4 billion
	voted       uint32       // TryLocks with a vote
	revoking    uint32       // how many of the requests carry a revoke request
	permits     uint16       // the users' common number of permits; valid while there are users
	listed      bool         // the key is in keyTable.idle
	granting    bool         // a task is about to grant votes for the key
	at          uint32       // the key's index in keyTable.every
}

// lists returns all entries of the key: with a vote, waiting, and answered.
func (k *key) lists() [3][]*entry {
	return [...][]*entry{k.votes.all(), k.queue.all(), k.answeredTries()}
}

// spendScan counts a pass over all entries of a key, each of which costs a comparison.
func (l *sessionLayer) spendScan(k *key) {
	l.spend((len(k.votes.all()) + len(k.queue.all()) + len(k.answeredTries())) / scanned)
}

// insert puts an entry into the queue.
func (k *key) insert(e *entry) {
	queue := k.queue.all()
	if len(queue) == 0 {
		k.queue.insert(0, e)
		return
	}
	i, _ := slices.BinarySearchFunc(queue, e, (*entry).compare)
	k.queue.insert(i, e)
}

// dequeue takes an entry without a vote off its key: out of the queue, or from among the TryLocks
// that were told.
func (l *sessionLayer) dequeue(e *entry) {
	k := e.key
	if e.cold().taken != 0 {
		k.leaveAnswered(e)
		return
	}
	i, ok := slices.BinarySearchFunc(k.queue.all(), e, (*entry).compare)
	if !ok {
		l.violated("request %d of session %v, without a vote, isn't in the queue of key %q",
			e.number, e.s.id, k.name)
		return
	}
	k.queue.delete(i)
}

// next returns the first request in the queue that could be given a vote.
func (k *key) next(now vote.Instant) *entry {
	for _, e := range k.queue.all() {
		if e.canReceive(now) {
			return e
		}
	}
	return nil
}

// isWanted reports whether a request other than a TryLock waits.
func (k *key) isWanted() bool {
	queue := k.queue.all()
	if len(queue) == 0 || !queue[0].try {
		return len(queue) > 0
	}
	return len(queue) > int(k.tries-k.voted)-len(k.answeredTries())
}

// count adds an entry to the counters of the key's requests (n is 1), or takes an entry out (n is
// -1).
func (k *key) count(e *entry, n int32) {
	if e.try {
		k.tries += uint32(n)
	}
	if n < 0 && e.revokes() {
		k.revoking--
	}
}

// voteOf returns the entry with the vote of serial s.
func (k *key) voteOf(s vote.Serial) *entry {
	if i, ok := k.votes.bySerial(s); ok {
		return k.votes.all()[i]
	}
	return nil
}

// round returns the last demotion round of the key's votes and waiting requests.
func (k *key) round() uint32 {
	var r uint32
	if queue := k.queue.all(); len(queue) > 0 {
		// The queue is sorted by rounds, after holders and upgrades.
		r = queue[len(queue)-1].round
	}
	for _, e := range k.votes.all() {
		r = max(r, e.round)
	}
	return r
}

// roundOf returns the demotion round in which a new request waits. If the request's node reaches a
// majority, the request waits by age alone, as it would from the node's next refresh on (see
// resetRounds). Other new requests join the last round of the older requests, so that they don't
// overtake a request that was demoted.
func (l *sessionLayer) roundOf(newcomer *entry) (r uint32) {
	if newcomer.s.reaches {
		return 0
	}
	k := newcomer.key
	l.spendScan(k)
	for _, all := range [...][]*entry{k.votes.all(), k.queue.all()} {
		for _, e := range all {
			if e.round > r && e.older(newcomer) < 0 {
				r = e.round
			}
		}
	}
	return r
}

// won returns the largest token among the leases that keep e from the key: leases that are known to
// have been granted, and that may not be over yet. If e is nil, won returns the largest token of
// all such leases. If there is no such lease, won returns zero.
//
// There may be several such leases: a lease with its release still on the way, and a lease won
// since then without this voter's vote. A lease with a token of at most k.over counts as over:
// k.over belongs to an exclusive lease that has ended here and was granted later than all leases
// with smaller tokens, so only the messages about their end are still on the way. (Where tokens
// began again below remembered tokens, since those were above every clock, a lease may be
// considered over although it isn't. A TryLock then learns of the lease after its TTL rather than
// at once.)
func (k *key) won(e *entry) (t vote.Token) {
	slots, all := 0, vote.Token(0) // of permits that keep e from the key only together
	against := func(f *entry) {
		if !f.held || f.voteLapsed || f == e {
			return
		}
		if e != nil && e.compatible(f) {
			if f.mode == vote.Permit {
				slots, all = slots+1, max(all, f.token)
			}
			return
		}
		t = max(t, f.token)
	}
	for _, f := range k.votes.all() {
		against(f)
	}
	for _, f := range k.queue.all() {
		if !f.held {
			break // holders come first
		}
		against(f)
	}
	if t == 0 && slots > 0 && slots >= int(k.permits) {
		t = all
	}
	if t <= k.over {
		return 0
	}
	return t
}

// idleNow reports whether the key has neither votes nor waiting requests.
func (k *key) idleNow() bool { return k.votes.empty() && k.queue.empty() && k.answered == nil }

// suits reports whether a request may join the present requests: all must agree on the number of
// permits. The first request sets the number.
func (l *sessionLayer) suits(k *key, w *vote.Spec) bool {
	if w.Mode != vote.Permit || k.permits == w.Permits {
		return true
	}
	l.spendScan(k)
	uses := func(e *entry) bool { return e.mode == vote.Permit && !e.voteLapsed }
	for _, all := range k.lists() {
		if slices.ContainsFunc(all, uses) {
			return false
		}
	}
	k.permits = w.Permits
	return true
}
