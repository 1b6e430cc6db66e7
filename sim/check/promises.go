package check

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Promises demands that one incarnation of a voter keeps its promises: before the deadline of a
// session only a message of the session's owner moves a vote. Promises is fed with the messages of
// the voter and of the requesters, in the order in which the voter sends and receives them, and has
// no knowledge of the voting algorithm. Readings of the voter's slow clock are passed in.
type Promises struct {
	Voter  string
	Report Report

	votes map[string][]*promise // by key
	// until is the deadline, by the voter's slow clock, to which the voter acknowledged to keep a
	// session.
	until map[vote.SessionID]vote.Instant
	// answers lists the answers that extended a session, unless the session's owner declared them
	// void.
	answers map[vote.SessionID][]answer
	newest  vote.Serial          // the newest serial promised
	unseen  map[vote.Serial]bool // older serials not seen yet
	last    release
}

// promise is a vote as observed from outside.
type promise struct {
	owner  vote.SessionID
	number vote.Number
	serial vote.Serial
	slot   vote.Slot
	lease  *Lease
	ended  bool // the owner has given back the vote
	// unsure marks a vote that a sync may have given back, unless the answer lists the vote.
	unsure bool
	// until is the end of the vote if its lease has a length of its own; zero until the voter has
	// sent the end. Before, the vote binds the voter for the length from the promise, and for no
	// longer than the session. made is zero for a vote that was first seen in the answer to a sync:
	// the voter gave the vote at some moment before.
	until, made vote.Instant
}

// release is the request of the last release received. A voter runs its timers before it handles a
// message, so at this very moment the voter may still promise a vote to the released request.
type release struct {
	at     Moment
	owner  vote.SessionID
	number vote.Number
}

// answer is an answer that extends a session and may still reach the session's owner.
type answer struct {
	sent  vote.Instant // the owner's clock at the request
	until vote.Instant // the voter's slow clock
}

// answersMost is how many answers are kept for a session: more than are sent in a TTL, apart from
// refreshes out of turn.
const answersMost = 64

// NewPromises returns the record of a voter that has promised nothing.
func NewPromises(voter string, report Report) *Promises {
	return &Promises{
		Voter: voter, Report: report, votes: make(map[string][]*promise), until: make(map[vote.SessionID]vote.Instant),
		answers: make(map[vote.SessionID][]answer), unseen: make(map[vote.Serial]bool),
	}
}

// Promised records that the voter has given a vote to a request of owner. A vote is not new where
// the voter lists what it keeps. Several votes of a key must not bar each other before their
// deadlines, and each new vote has a serial of its own.
func (p *Promises) Promised(at Moment, slow vote.Instant, owner vote.SessionID, r *Lease, s vote.Serial, slot vote.Slot, isNew bool) {
	if !p.uses(s) && isNew {
		p.Report(RuleSerial, "%s promises serial %d again", p.Voter, s)
	}
	v := &promise{owner: owner, number: r.Number, serial: s, slot: slot, lease: r, ended: p.last == release{at, owner, r.Number}}
	if isNew {
		v.made = slow
	}
	kept := p.votes[r.Key][:0]
	for _, old := range p.votes[r.Key] {
		switch until := p.binds(old); {
		case old.owner == owner && old.number == r.Number:
			// Earlier messages about this vote still apply, even if the voter was to forget the
			// vote meanwhile.
			if old.serial == s {
				v.until, v.made = old.until, old.made
			}
			continue
		case old.ended, slow >= until && !p.isVoid(old):
			continue
		case old.unsure, slow >= until:
		case r.BarsIn(slot, old.lease, old.slot):
			p.Report(RulePromises, "%s promises %q to request %d of %v, while request %d of %v has it for %v more", p.Voter, r.Key, r.Number, owner,
				old.number, old.owner, until.Sub(slow))
		}
		kept = append(kept, old)
	}
	clear(p.votes[r.Key][len(kept):])
	p.votes[r.Key] = append(kept, v)
}

// uses records a serial and reports whether the serial is new.
func (p *Promises) uses(n vote.Serial) bool {
	if n <= p.newest {
		isNew := p.unseen[n]
		delete(p.unseen, n)
		return isNew
	}
	for p.newest++; p.newest < n; p.newest++ {
		p.unseen[p.newest] = true
	}
	return true
}

// binds returns until when, by the voter's slow clock, a vote binds the voter if its owner doesn't
// give the vote back. No lease rests on a vote that was never extended, so no lock-delay follows
// the length of such a vote.
func (p *Promises) binds(v *promise) vote.Instant {
	if v.until != 0 {
		return v.until.Add(v.lease.Delay)
	}
	until := p.until[v.owner].Add(v.lease.Delay)
	if v.lease.Length > 0 {
		until = min(until, v.made.Add(v.lease.Length))
	}
	return until
}

// isVoid reports whether a vote binds the voter only once its session is extended again, since the
// owner has declared all answers void.
func (p *Promises) isVoid(v *promise) bool { return v.until == 0 && p.until[v.owner] == 0 }

// Extended records that the voter extends a session until the given reading of its slow clock, in
// an answer to a message that the owner sent at sent, by the owner's clock.
func (p *Promises) Extended(owner vote.SessionID, sent, until vote.Instant) {
	p.until[owner] = max(p.until[owner], until)
	all := append(p.answers[owner], answer{sent, until})
	if len(all) > answersMost {
		all = slices.Delete(all, 0, len(all)-answersMost)
	}
	p.answers[owner] = all
}

// Void records that the owner declares the answers void that are for messages sent after newest.
func (p *Promises) Void(owner vote.SessionID, newest vote.Instant) {
	p.answers[owner] = slices.DeleteFunc(p.answers[owner], func(a answer) bool { return a.sent > newest })
	p.until[owner] = 0
	for _, a := range p.answers[owner] {
		p.until[owner] = max(p.until[owner], a.until)
	}
}

// Lasts records that the voter says that a vote whose lease has a length of its own lasts until the
// given reading of its slow clock.
func (p *Promises) Lasts(owner vote.SessionID, n vote.Number, s vote.Serial, until func(*Lease) vote.Instant) {
	for v := range p.of(owner) {
		if v.number == n && v.serial == s {
			v.until = max(v.until, until(v.lease))
		}
	}
}

// Lapsed records that the voter says that a vote has outlasted the length of its lease, from the
// last extension or the promise. It must not say so too early.
func (p *Promises) Lapsed(slow vote.Instant, owner vote.SessionID, n vote.Number, s vote.Serial) {
	for v := range p.of(owner) {
		until := v.until
		if until == 0 {
			until = v.made.Add(v.lease.Length)
		}
		if v.number == n && v.serial == s && slow < until {
			p.Report(RulePromises, "%s says %v too early that request %d of %v has outlasted its length", p.Voter, until.Sub(slow), n, owner)
		}
	}
}

// Yielded records that the owner has given back one vote.
func (p *Promises) Yielded(owner vote.SessionID, n vote.Number, s vote.Serial) {
	for v := range p.of(owner) {
		v.ended = v.ended || v.number == n && v.serial == s
	}
}

// Released records that the owner has given back all votes for a request.
func (p *Promises) Released(at Moment, owner vote.SessionID, n vote.Number) {
	p.last = release{at, owner, n}
	for v := range p.of(owner) {
		v.ended = v.ended || v.number == n
	}
}

// Synced records that the owner has told the voter of all its requests. Votes for others are given
// back.
func (p *Promises) Synced(owner vote.SessionID) {
	for v := range p.of(owner) {
		v.unsure = true
	}
}

// Answered records that the voter has listed all votes that it keeps for the owner, each by
// Promised.
func (p *Promises) Answered(owner vote.SessionID) {
	for v := range p.of(owner) {
		v.ended = v.ended || v.unsure
	}
}

// of returns the votes for a session, in any order.
func (p *Promises) of(owner vote.SessionID) func(func(*promise) bool) {
	return func(yield func(*promise) bool) {
		for _, votes := range p.votes { // in any order
			for _, v := range votes {
				if v.owner == owner && !yield(v) {
					return
				}
			}
		}
	}
}
