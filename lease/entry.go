package lease

import (
	"cmp"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// entry is a request at this voter: in its key's queue, or (if serial isn't zero) with a vote for
// the key. A million leases need a million entries, so the struct is kept small: rarely used fields
// are in coldFields, and of the request's stamp only the parts not found elsewhere are stored.
type entry struct {
	s          *session
	key        *key        // nil once the entry has left its key after the end of its session; see ending
	coldFields *coldFields // nil for most entries
	number     vote.Number
	time       vote.Micros // of the request's stamp; see older
	tokenHint  vote.Token

	token  vote.Token   // of the vote, or of the lease reported by the owner
	serial vote.Serial  // of the vote; zero without a vote
	since  vote.Instant // when the entry got its vote, or without a vote, when the request arrived
	wonAt  vote.Instant // zero if the request hasn't won as far as this voter knows

	proposalTimeout time.Duration // the proposal timeout of the next promise
	// The demotion round: a request demoted at the end of its proposal timeout queues behind the
	// requests that were let pass
	round uint32
	at    uint32 // index in session.all

	slot vote.Slot // of the vote
	// Of the lease, as reported by the owner; the vote may be for another slot until the vote is
	// moved
	leaseSlot  vote.Slot
	wantedSlot vote.Slot // the only slot of use to the request; zero for any
	permits    uint16
	mode       vote.Mode
	try        bool

	held       bool // the owner reports that the request has won; precedes all requests that haven't
	inquired   bool
	voteLapsed bool // the vote outlasted its length; see lapse
	residual   bool // a residual vote, which stands to its end without its request or session
	announced  bool // the watchers were told that the request waits
	// The vote's token has changed since the promise, and the owner hasn't reported which token
	// won; see viewEntry
	tokenChanged bool
	asked        asked
}

// asked is what the owner of a vote was told about requests that wait for its key. Each is sent
// once.
type asked uint8

const (
	askedNothing   asked = iota
	askedContended       // a request waits
	askedRevoke          // a request waits, and asks for the key to be given back
)

// coldFields has the cold fields of an entry. Few requests need them, and requests without
// contention and without a time of their own hardly ever do.
type coldFields struct {
	beside                 vote.Number // see vote.Spec
	length, delay, minHold time.Duration
	// How long after the grant the owner's node ends the lease, or how much longer the lease lasts
	// if the owner has said so since the grant; zero if the node doesn't end the lease. For queries
	// only, as endsAt
	lasts  time.Duration
	endsAt vote.Instant // of a held lease that lasts for a set time: its end

	// Of the lease reported to a TryLock, as long as the lease keeps the key from the TryLock; zero
	// for none
	taken  vote.Token
	place  uint32       // index in answeredTries.all
	barred bool         // see answeredTries
	from   vote.Instant // when the request arrived, if it waited for its vote; zero otherwise
	until  vote.Instant // when the vote ends, if the vote has an end of its own
	// When a vote for a request with a length ends because the owner has never extended the vote;
	// zero if the owner has. See awaitExtension
	unextended vote.Instant
	// Until when a residual vote kept the key that the request has taken back. The former vote may
	// have been part of a lease whose report was lost; see takeBack
	rest vote.Instant
	// Of a residual vote: when the lease's own length is over; zero if there is none, or if it is
	// over already
	ends  vote.Instant
	timed vote.Instant  // the earliest reminder of the vote
	grace time.Duration // an extension of the present promise's proposal timeout; see expireResidual

	version uint64 // of the value
	value   []byte
	counts  bool // the owner was asked how often it has handed the lease off
	revokes bool // holders are asked to give the key back
	reason  string
}

// noCold stands for the cold fields of an entry without cold fields. It is never written.
var noCold coldFields

// cold returns the entry's cold fields for reading.
func (e *entry) cold() *coldFields {
	if e.coldFields == nil {
		return &noCold
	}
	return e.coldFields
}

// setSpec stores the rarely used fields of a request's vote.Spec, limited to what this voter can
// promise.
func (l *sessionLayer) setSpec(e *entry, w *vote.Spec) {
	if w.Beside == 0 && w.Length <= 0 && w.Delay <= 0 && w.MinHold <= 0 && w.EndsAfter <= 0 {
		return
	}
	x := l.spares.coldFor(e)
	x.beside, x.length, x.delay, x.minHold = w.Beside, max(w.Length, 0), l.within(w.Delay), l.within(w.MinHold)
	x.lasts = w.EndsAfter
}

// hold marks an entry as a lease from now on.
func (e *entry) hold(now vote.Instant) {
	e.held, e.wonAt = true, now
	e.ends(now)
}

// ends notes when a held lease that lasts for a set time from now will end.
func (e *entry) ends(now vote.Instant) {
	if e.cold().lasts > 0 {
		e.coldFields.endsAt = now.Add(e.coldFields.lasts)
	}
}

func (e *entry) revokes() bool { return e.coldFields != nil && e.coldFields.revokes }

// from returns when the request arrived.
func (e *entry) from() vote.Instant {
	if x := e.coldFields; x != nil && x.from != 0 {
		return x.from
	}
	return e.since
}

// votedAt records when the entry got its vote.
func (l *sessionLayer) votedAt(e *entry, at vote.Instant) {
	if e.since != at {
		from := e.from()
		l.spares.coldFor(e).from = from
		e.since = at
	}
}

// voteless takes the vote off the entry; see also Voter.unvote.
func (e *entry) voteless() {
	if e.try && !e.residual && e.serial != 0 {
		e.key.voted--
	}
	e.serial, e.slot, e.since = 0, 0, e.from()
	if e.coldFields != nil {
		e.coldFields.until = 0
	}
}

// older compares stamps: negative if e's stamp is older than f's. The order is the same as
// [vote.Stamp.Compare]'s.
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
	return cmp.Compare(e.s.id.Incarnation, f.s.id.Incarnation)
}

// precedes reports whether e comes before f. Holders come first: they only want back their own
// votes. Then come upgrades, since every request before an upgrade would wait for the lease held by
// the upgrade's session. Then demotion rounds decide, then age.
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
	case e.cold().beside != 0:
		return 1
	}
	return 2
}

// term returns when the proposal timeout of an entry's vote is over.
func (e *entry) term() vote.Instant { return e.since.Add(e.proposalTimeout + e.cold().grace) }

// compatible reports whether e and f are compatible, so that both may have votes at the same time,
// slots aside.
func (e *entry) compatible(f *entry) bool {
	if e.upgrades(f) || f.upgrades(e) {
		return true
	}
	// With different numbers of permits, e and f would count on different totals.
	return e.mode == f.mode && e.mode != vote.Exclusive && e.permits == f.permits
}

// upgrades reports whether e is an upgrade that replaces f, a shared request of the same session.
func (e *entry) upgrades(f *entry) bool {
	b := e.cold().beside
	return b != 0 && b == f.number && e.s.id == f.s.id && e.mode == vote.Exclusive && f.mode == vote.Shared
}

// canReceive reports whether a vote could be given to e now. A session may have ended at this very
// instant without being removed yet.
func (e *entry) canReceive(now vote.Instant) bool {
	return e.s.takesVotes() && !e.s.receipts.answerLost && e.s.deadline > now && e.cold().taken == 0 && !e.voteLapsed
}
