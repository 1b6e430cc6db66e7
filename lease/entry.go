package lease

import (
	"cmp"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// entry is one request at this voter: in its key's queue, or (serial not zero) with a vote of the key's. For a million leases there are a million of
// these, so they are kept small: what few requests have stands in extras, and of its stamp only what isn't said elsewhere.
type entry struct {
	s      *session
	key    *key
	extras *extras // nil for most
	number vote.Number
	time   vote.Micros // of its stamp; see older
	bid    vote.Token

	token  vote.Token   // of its vote, or of the lease that its owner says it holds
	serial vote.Serial  // of its vote; zero without one
	since  vote.Instant // when it got its vote; without one, since when it is here
	wonAt  vote.Instant // zero if it hasn't, as far as is known here

	tenure time.Duration // how long its next promise may stay tentative
	round  uint32        // who has let others pass at the end of a tenure goes after those it let pass

	slot    vote.Slot // of its vote
	has     vote.Slot // of the lease, as its owner says; the vote may be for another until it is moved
	want    vote.Slot // the only slot of use to it; zero for any
	permits uint16
	mode    vote.Mode
	try     bool

	held     bool // its owner says that it has won; it goes before all that haven't
	inquired bool
	dormant  bool // its vote outlasted its length; it gets none before its owner's word
	ghost    bool // its request is gone, or its session; the vote stands to its end
	wanted   bool // its owner was told that somebody waits
	told     bool // those who watch were told that it waits
	urged    bool // and that it is asked to give the key back
}

// extras is what few requests have, those that never met another and have no time of their own least of all.
type extras struct {
	beside                 vote.Number // see vote.Wish
	length, delay, minHold time.Duration

	taken vote.Token    // of the lease that a TryLock was told of, as long as that keeps it from the key; zero for none
	from  vote.Instant  // since when it is here, if it waited before it got a vote; zero otherwise
	until vote.Instant  // when its vote ends, if that has a time of its own
	ends  vote.Instant  // of a ghost: when its lease's own length is over; zero if that is over, or there is none
	timed vote.Instant  // the earliest time at which it stands in the voter's timers
	grace time.Duration // how much longer its present promise may stay tentative; see exorcise

	version uint64 // of its value
	value   []byte
	urge    bool // the holder is asked for the key
	why     string
}

// nothing is what an entry without extras has. Nobody writes to it.
var nothing extras

// rare returns the entry's extras, to be read.
func (e *entry) rare() *extras {
	if e.extras == nil {
		return &nothing
	}
	return e.extras
}

// extra returns the entry's extras, to be written.
func (v *Voter) extra(e *entry) *extras {
	if e.extras == nil {
		e.extras = v.spareExtras.get()
	}
	return e.extras
}

// wishes has an entry keep what is rare of its wish, cut to what this voter can promise.
func (v *Voter) wishes(e *entry, w *vote.Wish) {
	if w.Beside == 0 && w.Length <= 0 && w.Delay <= 0 && w.MinHold <= 0 {
		return
	}
	x := v.extra(e)
	x.beside, x.length, x.delay, x.minHold = w.Beside, v.within(w.Length), v.within(w.Delay), v.within(w.MinHold)
}

// discard takes back the memory of an entry that nothing refers to any more.
func (v *Voter) discard(e *entry) {
	if e.extras != nil {
		v.spareExtras.put(e.extras)
	}
	v.spareEntries.put(e)
}

// copyOf returns a copy of an entry that shares nothing with it.
func (v *Voter) copyOf(e *entry) *entry {
	g := v.spareEntries.get()
	*g = *e
	if e.extras != nil {
		g.extras = v.spareExtras.get()
		*g.extras = *e.extras
	}
	return g
}

func (e *entry) urges() bool { return e.extras != nil && e.extras.urge }

// from returns since when the entry is here.
func (e *entry) from() vote.Instant {
	if x := e.extras; x != nil && x.from != 0 {
		return x.from
	}
	return e.since
}

// votedAt notes when the entry got its vote.
func (v *Voter) votedAt(e *entry, at vote.Instant) {
	if e.since != at {
		from := e.from()
		v.extra(e).from = from
		e.since = at
	}
}

// voteless takes the vote off the entry; see also Voter.unvote.
func (e *entry) voteless() {
	e.serial, e.slot, e.since = 0, 0, e.from()
	if e.extras != nil {
		e.extras.until = 0
	}
}

// older compares stamps: negative when e's is older than f's. It is what [vote.Stamp.Compare] says of them.
func (e *entry) older(f *entry) int {
	if c := cmp.Compare(e.time, f.time); c != 0 {
		return c
	}
	if e.s != f.s {
		if c := cmp.Compare(e.s.id.Node, f.s.id.Node); c != 0 {
			return c
		}
	}
	if c := cmp.Compare(e.number, f.number); c != 0 {
		return c
	}
	return cmp.Compare(e.s.id.Life, f.s.id.Life)
}

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
	return e.older(f)
}

func (e *entry) rank() int {
	switch {
	case e.held:
		return 0
	case e.rare().beside != 0:
		return 1
	}
	return 2
}

// term is when the tenure of an entry's vote is over.
func (e *entry) term() vote.Instant { return e.since.Add(e.tenure + e.rare().grace) }

// bears reports whether e and f may have votes at the same time, slots aside.
func (e *entry) bears(f *entry) bool {
	if e.upgrades(f) || f.upgrades(e) {
		return true
	}
	return e.mode == f.mode && e.mode != vote.Exclusive && e.permits == f.permits // else they would count on different numbers
}

// upgrades reports whether e is to take the place of f, which its own node holds.
func (e *entry) upgrades(f *entry) bool {
	b := e.rare().beside
	return b != 0 && b == f.number && e.s.id == f.s.id && e.mode == vote.Exclusive && f.mode == vote.Shared
}

// hears reports whether a vote could be given to e now. A session may have ended at this very instant and not be removed yet.
func (e *entry) hears(now vote.Instant) bool {
	return e.s.ready() && e.s.deadline > now && e.rare().taken == 0 && !e.dormant
}
