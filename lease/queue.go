package lease

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// entry is one request at this voter: in its key's queue, or (serial not zero) with a vote of the key's.
type entry struct {
	vote.Wish
	s      *session
	key    *key
	number vote.Number
	stamp  vote.Stamp
	bid    vote.Token

	held  bool         // its owner says that it has won; it goes before all that haven't
	taken vote.Token   // of the lease that a TryLock was told of, as long as that keeps it from the key; zero for none
	token vote.Token   // of its vote, or of the lease that its owner says it holds
	wonAt vote.Instant // zero if it hasn't, as far as is known here
	from  vote.Instant // since when it is here

	serial   vote.Serial // of its vote; zero without one
	slot     vote.Slot   // of its vote
	has      vote.Slot   // of the lease, as its owner says; the vote may be for another until it is moved
	want     vote.Slot   // the only slot of use to it; zero for any
	since    vote.Instant
	until    vote.Instant // when its vote ends, if that has a time of its own
	ends     vote.Instant // of a ghost: when its lease's own length is over; zero if that is over, or there is none
	inquired bool
	timed    vote.Instant // the earliest time at which it stands in the voter's timers
	dormant  bool         // its vote outlasted its length; it gets none before its owner's word
	ghost    bool         // its request is gone, or its session; the vote stands to its end
	wanted   bool         // its owner was told that somebody waits
	told     bool         // those who watch were told that it waits
	urged    bool         // and that it is asked to give the key back

	tenure time.Duration // how long its next promise may stay tentative
	grace  time.Duration // and how much longer its present one may; see exorcise
	round  uint32        // who has let others pass at the end of a tenure goes after those it let pass

	extras *extras // what few requests have
}

// extras is what few requests have: a value, and a reason to ask the holder for the key.
type extras struct {
	version uint64
	value   []byte
	urge    bool
	why     string
}

// extra returns the entry's extras, to be written.
func (e *entry) extra() *extras {
	if e.extras == nil {
		e.extras = &extras{}
	}
	return e.extras
}

func (e *entry) urges() bool { return e.extras != nil && e.extras.urge }

// precedes reports whether e comes before f. Holders come first: they only want back what is theirs. Then upgrades, since whoever stands before
// them waits for what they still hold. Then by rounds, then by age.
func (e *entry) precedes(f *entry) bool { return e.compare(f) < 0 }

func (e *entry) compare(f *entry) int {
	if c := cmp.Compare(e.rank(), f.rank()); c != 0 {
		return c
	}
	if c := cmp.Compare(e.round, f.round); c != 0 {
		return c
	}
	return e.stamp.Compare(f.stamp)
}

func (e *entry) rank() int {
	switch {
	case e.held:
		return 0
	case e.Beside != 0:
		return 1
	}
	return 2
}

// term is when the tenure of an entry's vote is over.
func (e *entry) term() vote.Instant { return e.since.Add(e.tenure + e.grace) }

// bears reports whether e and f may have votes at the same time, slots aside.
func (e *entry) bears(f *entry) bool {
	if e.upgrades(f) || f.upgrades(e) {
		return true
	}
	return e.Mode == f.Mode && e.Mode != vote.Exclusive && e.Permits == f.Permits // else they would count on different numbers
}

// upgrades reports whether e is to take the place of f, which its own node holds.
func (e *entry) upgrades(f *entry) bool {
	return e.Beside != 0 && e.Beside == f.number && e.s.id == f.s.id && e.Mode == vote.Exclusive && f.Mode == vote.Shared
}

// hears reports whether a vote could be given to e now. A session may have ended at this very instant and not be removed yet.
func (e *entry) hears(now vote.Instant) bool {
	return e.s.ready() && e.s.deadline > now && e.taken == 0 && !e.dormant
}

// key is one lock at this voter.
type key struct {
	name    vote.Key
	votes   []*entry      // to whom it is promised, in order of serials. They all bear each other and have different slots
	queue   []*entry      // who waits, in order
	permits uint16        // that its users agree on; it means something while there are any
	tries   int           // TryLocks among all of them
	urging  int           // how many of them urge the holder
	highest vote.Token    // the largest token proposed or confirmed here
	over    vote.Token    // the largest token of an exclusive lease that was given back here
	spent   []vote.Token  // of shared leases that are over, while others aren't; see unique
	grace   time.Duration // of the promises that are being made
	idleAt  vote.Instant
	listed  bool // stands in Voter.idle
}

func (k *key) insert(e *entry) {
	i, _ := slices.BinarySearchFunc(k.queue, e, (*entry).compare)
	k.queue = slices.Insert(k.queue, i, e)
}

func (k *key) remove(e *entry) {
	if i, ok := slices.BinarySearchFunc(k.queue, e, (*entry).compare); ok {
		k.queue = slices.Delete(k.queue, i, i+1)
	}
}

// next returns the first of the queue that could be given a vote.
func (k *key) next(now vote.Instant) *entry {
	for _, e := range k.queue {
		if e.hears(now) {
			return e
		}
	}
	return nil
}

// isWanted reports whether anybody waits who can wait, which a TryLock can't.
func (k *key) isWanted() bool {
	return slices.ContainsFunc(k.queue, func(e *entry) bool { return !e.Try })
}

// voteOf returns who has the vote of a serial.
func (k *key) voteOf(s vote.Serial) *entry {
	for _, e := range k.votes {
		if e.serial == s {
			return e
		}
	}
	return nil
}

// round returns the last round in which anybody waits.
func (k *key) round() uint32 {
	var r uint32
	if n := len(k.queue); n > 0 {
		r = k.queue[n-1].round // it is sorted by rounds, but for holders and upgrades, who come first
	}
	for _, e := range k.votes {
		r = max(r, e.round)
	}
	return r
}

// roundOf returns the round in which a newcomer waits. One whose node reaches a majority waits by its age alone, as it would from its node's next
// refresh on (see forgive). Others wait with the last of those that are older, so that they pass nobody who has let others pass.
func (k *key) roundOf(s *session, stamp vote.Stamp) uint32 {
	if s.reaches {
		return 0
	}
	var r uint32
	for _, e := range slices.Concat(k.votes, k.queue) {
		if e.round > r && e.stamp.Compare(stamp) < 0 {
			r = e.round
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
			if f.Mode == vote.Permit {
				slots, all = slots+1, max(all, f.token)
			}
			return
		}
		t = max(t, f.token)
	}
	for _, f := range k.votes {
		against(f)
	}
	for _, f := range k.queue {
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

// eachTry calls f with every TryLock that waits, and with the token of the newest lease that keeps it from the key; zero when none does.
func (k *key) eachTry(f func(e *entry, t vote.Token)) {
	if k.tries == 0 {
		return
	}
	writer := false // one waits who doesn't share the key
	for _, e := range slices.Clone(k.queue) {
		if e.Try && !e.held {
			t := k.won(e)
			if t == 0 && writer && e.Mode == vote.Shared {
				t = k.won(nil) // it would have to pass the writer, who waits for readers
			}
			f(e, t)
		}
		writer = writer || e.Mode != vote.Shared
	}
}

// forgetTaken lets TryLocks that were told that another has won wait again, once that doesn't keep them from the key any more. One that
// needs this vote still waits; the others are released by their owners.
func (k *key) forgetTaken() {
	k.eachTry(func(e *entry, t vote.Token) {
		if t == 0 {
			e.taken = 0
		}
	})
}

// idleNow reports whether nobody wants or holds the key.
func (k *key) idleNow() bool { return len(k.votes) == 0 && len(k.queue) == 0 }

// suits reports whether a request may be taken in beside those that are there: all must agree on the number of permits. The first
// one sets it.
func (k *key) suits(w *vote.Wish) bool {
	if w.Mode != vote.Permit || k.permits == w.Permits {
		return true
	}
	uses := func(e *entry) bool { return e.Mode == vote.Permit }
	if slices.ContainsFunc(k.votes, uses) || slices.ContainsFunc(k.queue, uses) {
		return false
	}
	k.permits = w.Permits
	return true
}
