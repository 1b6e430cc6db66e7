package lease

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// entry is one request at this voter: in its key's queue, or (serial not zero) with the key's vote.
type entry struct {
	s      *session
	key    *key
	number vote.Number
	stamp  vote.Stamp
	bid    vote.Token
	mode   vote.Mode
	try    bool

	held  bool       // its owner says that it has won; it goes before all that haven't
	taken vote.Token // of the lease that a TryLock was told of, as long as somebody has the key; zero for none
	token vote.Token // of its vote, or of the lease that its owner says it holds

	serial   vote.Serial // of its vote; zero without one
	since    vote.Instant
	inquired bool
	tenured  bool // the end of its tenure stands in the heap

	tenure time.Duration // how long its next promise may stay tentative
	round  uint32        // who has let others pass at the end of a tenure goes after those it let pass
}

// precedes reports whether e comes before f. Holders come first: they only want back what is theirs. Then by rounds, then by age.
func (e *entry) precedes(f *entry) bool { return e.compare(f) < 0 }

func (e *entry) compare(f *entry) int {
	if e.held != f.held {
		if e.held {
			return -1
		}
		return 1
	}
	if c := cmp.Compare(e.round, f.round); c != 0 {
		return c
	}
	return e.stamp.Compare(f.stamp)
}

// key is one lock at this voter.
type key struct {
	name    vote.Key
	vote    *entry     // whom it is promised to. Shared modes and permits will make this a set; whoever asks goes through vacant
	queue   []*entry   // who waits, in order
	tries   int        // TryLocks among all of them
	highest vote.Token // the largest token proposed or confirmed here
	over    vote.Token // the largest token of a lease that was given back here
	idleAt  vote.Instant
	listed  bool // stands in Voter.idle
}

// owner returns whose request the key is promised to; nobody's is the zero session.
func (k *key) owner() vote.SessionID {
	if k.vote == nil {
		return vote.SessionID{}
	}
	return k.vote.s.id
}

// vacant reports whether a vote for the mode could be promised beside those that stand.
func (k *key) vacant(vote.Mode) bool { return k.vote == nil }

func (k *key) insert(e *entry) {
	i, _ := slices.BinarySearchFunc(k.queue, e, (*entry).compare)
	k.queue = slices.Insert(k.queue, i, e)
}

func (k *key) remove(e *entry) {
	if i, ok := slices.BinarySearchFunc(k.queue, e, (*entry).compare); ok {
		k.queue = slices.Delete(k.queue, i, i+1)
	}
}

// next returns who is to have the key: the first of the queue that can hear of it and still wants it. A session may have
// ended at this very instant and not be removed yet.
func (k *key) next(now vote.Instant) *entry {
	for _, e := range k.queue {
		if e.s.ready() && e.s.deadline > now && e.taken == 0 {
			return e
		}
	}
	return nil
}

// round returns the round in which a newcomer waits: with the last of those who wait already, so that it passes nobody who
// has let others pass.
func (k *key) round() uint32 {
	var r uint32
	if n := len(k.queue); n > 0 {
		r = k.queue[n-1].round // it is sorted by rounds, but for holders, who come first
	}
	if k.vote != nil {
		r = max(r, k.vote.round)
	}
	return r
}

// won returns the largest token among the leases that are known to have won the key and may not be over; zero when there is none.
//
// There may be several: whose release hasn't come yet, and who has won since without this voter. One whose token is below that of a lease that was
// given back here is over, since that one was granted later; only its owner's word that it is over is still on its way. (Where tokens had to begin anew,
// below those that are remembered, a lease may be taken for over that isn't. Then a TryLock hears of it after its TTL rather than at once.)
func (k *key) won() (t vote.Token) {
	if k.vote != nil && k.vote.held {
		t = k.vote.token
	}
	for _, e := range k.queue {
		if !e.held {
			break // holders come first
		}
		t = max(t, e.token)
	}
	if t <= k.over {
		return 0
	}
	return t
}

// forgetTaken lets TryLocks that were told that another has won wait again, once nobody is known to have. One that needs this vote
// still waits; the others are released by their owners.
func (k *key) forgetTaken() {
	if k.tries == 0 || k.won() != 0 {
		return
	}
	for _, e := range k.queue {
		e.taken = 0
	}
}

// idleNow reports whether nobody wants or holds the key.
func (k *key) idleNow() bool { return k.vote == nil && len(k.queue) == 0 }
