package lease

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// key is one lock at this voter. It is kept small for the same reason as entry.
type key struct {
	name    vote.Key
	votes   few           // to whom it is promised, in order of serials. They all bear each other and have different slots
	queue   few           // who waits, in order
	highest vote.Token    // the largest token proposed or confirmed here
	over    vote.Token    // the largest token of an exclusive lease that was given back here
	spent   *[]vote.Token // of shared leases that are over, while others aren't; see unique. Nil before there are any
	idleAt  vote.Instant  // when it may be forgotten
	tries   uint32        // TryLocks among all of them: memory for more than 4 billion there isn't
	urging  uint32        // how many of them urge the holder
	permits uint16        // that its users agree on; it means something while there are any
	listed  bool          // stands in Voter.idle
}

func (k *key) insert(e *entry) {
	queue := k.queue.all()
	if len(queue) == 0 {
		k.queue.insert(0, e)
		return
	}
	i, _ := slices.BinarySearchFunc(queue, e, (*entry).compare)
	k.queue.insert(i, e)
}

func (k *key) remove(e *entry) {
	queue := k.queue.all()
	if len(queue) > 0 && queue[0] == e {
		k.queue.delete(0)
	} else if i, ok := slices.BinarySearchFunc(queue, e, (*entry).compare); ok {
		k.queue.delete(i)
	}
}

// next returns the first of the queue that could be given a vote.
func (k *key) next(now vote.Instant) *entry {
	for _, e := range k.queue.all() {
		if e.hears(now) {
			return e
		}
	}
	return nil
}

// isWanted reports whether anybody waits who can wait, which a TryLock can't.
func (k *key) isWanted() bool {
	return slices.ContainsFunc(k.queue.all(), func(e *entry) bool { return !e.try })
}

// voteOf returns who has the vote of a serial.
func (k *key) voteOf(s vote.Serial) *entry {
	for _, e := range k.votes.all() {
		if e.serial == s {
			return e
		}
	}
	return nil
}

// round returns the last round in which anybody waits.
func (k *key) round() uint32 {
	var r uint32
	if queue := k.queue.all(); len(queue) > 0 {
		r = queue[len(queue)-1].round // it is sorted by rounds, but for holders and upgrades, who come first
	}
	for _, e := range k.votes.all() {
		r = max(r, e.round)
	}
	return r
}

// roundOf returns the round in which a newcomer waits. One whose node reaches a majority waits by its age alone, as it would from its node's next
// refresh on (see forgive). Others wait with the last of those that are older, so that they pass nobody who has let others pass.
func (k *key) roundOf(newcomer *entry) (r uint32) {
	if newcomer.s.reaches {
		return 0
	}
	for _, all := range [...][]*entry{k.votes.all(), k.queue.all()} {
		for _, e := range all {
			if e.round > r && e.older(newcomer) < 0 {
				r = e.round
			}
		}
	}
	return r
}

// won returns the largest token among the leases that are known to have won the key and may not be over, and which keep e from it (nil: any);
// zero when there is none.
//
// There may be several: whose release hasn't come yet, and who has won since without this voter. One whose token is below that of an exclusive lease that
// was given back here is over, since that one was granted later; only its owner's word that it is over is still on its way. (Where tokens had to begin anew,
// below those that are remembered, a lease may be taken for over that isn't. Then a TryLock hears of it after its TTL rather than at once.)
func (k *key) won(e *entry) (t vote.Token) {
	slots, all := 0, vote.Token(0) // of permits that keep e from the key only together
	against := func(f *entry) {
		if !f.held || f == e {
			return
		}
		if e != nil && e.bears(f) {
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

// eachTry calls f with every TryLock that waits, and with the token of the newest lease that keeps it from the key; zero when none does. Calls
// of f change nothing in the queue.
func (k *key) eachTry(f func(e *entry, t vote.Token)) {
	if k.tries == 0 {
		return
	}
	writer := false // one waits who doesn't share the key
	for _, e := range k.queue.all() {
		if e.try && !e.held {
			t := k.won(e)
			if t == 0 && writer && e.mode == vote.Shared {
				t = k.won(nil) // it would have to pass the writer, who waits for readers
			}
			f(e, t)
		}
		writer = writer || e.mode != vote.Shared
	}
}

// forgetTaken lets TryLocks that were told that another has won wait again, once that doesn't keep them from the key any more. One that
// needs this vote still waits; the others are released by their owners.
func (k *key) forgetTaken() {
	k.eachTry(func(e *entry, t vote.Token) {
		if t == 0 && e.extras != nil {
			e.extras.taken = 0
		}
	})
}

// idleNow reports whether nobody wants or holds the key.
func (k *key) idleNow() bool { return k.votes.empty() && k.queue.empty() }

// suits reports whether a request may be taken in beside those that are there: all must agree on the number of permits. The first
// one sets it.
func (k *key) suits(w *vote.Wish) bool {
	if w.Mode != vote.Permit || k.permits == w.Permits {
		return true
	}
	uses := func(e *entry) bool { return e.mode == vote.Permit }
	if slices.ContainsFunc(k.votes.all(), uses) || slices.ContainsFunc(k.queue.all(), uses) {
		return false
	}
	k.permits = w.Permits
	return true
}
