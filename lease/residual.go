package lease

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A residual vote outlives its request: the request or the session of the vote is gone, but the
// vote stands until an instant of its own. Either the key is kept from other requests for a while
// after a lease (lock-delay, minimum hold), or the lease has a length of its own and outlives its
// node.
//
// A residual vote of a lease with a length is a promise like any other: none lasts longer than the
// maximum TTL after the owner's last message, so the quiet time of a restarted voter outlasts the
// promises that the voter has forgotten. A lock-delay begins only at the end of a lease, and so may
// end later. Voters that restart during the delay don't remember the delay, which may thus be cut
// short. The key has no holder then.

// within limits a duration to the range that a voter can promise.
func (l *sessionLayer) within(d time.Duration) time.Duration { return min(max(d, 0), l.quietTime()) }

// stays returns until when an entry's vote stands after the entry's end. The vote ends at once if
// that instant has passed.
func (l *sessionLayer) stays(e *entry, lapsed bool) (until vote.Instant) {
	x := e.coldFields
	if e.serial == 0 || x == nil {
		return 0
	}
	if x.minHold > 0 && (e.held || lapsed) {
		won := e.wonAt
		if !e.held || won == 0 {
			// The request may have won just now, and its node may have crashed before reporting the
			// win
			won = l.now.Slow
		}
		until = won.Add(x.minHold + vote.Drift(x.minHold))
	}
	if lapsed && (x.delay > 0 || x.until > 0) {
		ended := max(l.now.Slow, x.until)
		if x.delay > 0 {
			ended = ended.Add(x.delay + vote.Drift(x.delay))
		}
		until = max(until, ended)
	}
	if lapsed {
		until = max(until, x.rest)
	}
	return until
}

// residualVotes has the residual votes by session and request, so that finding some of a million
// takes no search. A request for a shared key may have left several, one after the other.
type residualVotes map[vote.SessionID]map[vote.Number][]*entry

func (r residualVotes) add(g *entry) {
	of := r[g.s.id]
	if of == nil {
		of = make(map[vote.Number][]*entry)
		r[g.s.id] = of
	}
	of[g.number] = append(of[g.number], g)
}

func (r residualVotes) remove(g *entry) {
	of := r[g.s.id]
	left := slices.DeleteFunc(of[g.number], func(o *entry) bool { return o == g })
	if of[g.number] = left; len(left) > 0 {
		return
	}
	if delete(of, g.number); len(of) == 0 {
		delete(r, g.s.id)
	}
}

// of returns the residual votes of a session, in order of serials.
func (r residualVotes) of(s vote.SessionID) []*entry {
	var all []*entry
	for _, votes := range r[s] {
		all = append(all, votes...)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.serial, b.serial) })
	return all
}

// stream returns the newest stream of an incarnation that has left residual votes; zero if none are
// left. The voter forgets the streams of a session together with the session.
func (r residualVotes) stream(s vote.SessionID) (newest vote.Stream) {
	for _, of := range r[s] {
		for _, g := range of {
			newest = max(newest, g.s.stream)
		}
	}
	return newest
}

// leaveResidual replaces an entry's vote with a residual vote. If the lease was given back, or its
// own length has ended, the residual vote only keeps the key from other requests. Otherwise the
// holder may still use the lease.
func (l *voteLayer) leaveResidual(e *entry, until vote.Instant, lapsed bool) {
	key := e.key
	key.votes.replace(e, l.residualOf(e, until, lapsed))
}

// residualOf turns the vote of an entry into a residual vote, and takes the vote off the entry. The
// caller puts the residual vote in the vote's place.
func (l *voteLayer) residualOf(e *entry, until vote.Instant, lapsed bool) *entry {
	g := l.spares.copyOf(e)
	g.residual, g.held = true, true
	x := l.spares.coldFor(g)
	if !lapsed || x.until <= l.now.Slow {
		x.length = 0
	}
	x.ends, x.until, x.unextended = x.until, until, 0
	e.s.digest = e.s.digest.Minus(vote.DigestOfVote(e.serial))
	e.voteless()
	l.votes.residuals.add(g)
	l.remind(g, until)
	return g
}

// reclaim gives back the residual vote of a request listed anew: the request gets its former vote
// back, if that vote still stands. A vote given back by its owner in the meantime (serial up to
// yielded) ends. reclaim reports whether the request has its vote back.
func (v *Voter) reclaim(e *entry, yielded vote.Serial) bool {
	if len(v.votes.residuals) == 0 {
		return false
	}
	for _, g := range slices.Clone(v.votes.residuals[e.s.id][e.number]) {
		if g.key != e.key {
			continue
		}
		if g.serial <= yielded {
			v.expireResidual(g)
			continue
		}
		v.votes.residuals.remove(g)
		e.serial, e.slot, e.wantedSlot = g.serial, g.slot, 0
		v.votedAt(e, g.since)
		if g.wonAt != 0 {
			e.wonAt = min(g.wonAt, e.wonAt)
		}
		if !e.held {
			e.token, e.tokenChanged = g.token, g.tokenChanged
			if e.token < v.tokens.min.Above() {
				// The minimum token may have risen with a new electorate in the meantime: see
				// proposeAgain
				e.token, e.tokenChanged = v.propose(e.key, e.tokenHint), true
				v.raise(e.key, e.token)
			}
		}
		had := g.cold()
		until := had.until
		switch {
		case e.cold().length == 0 || had.ends == 0:
			until = 0 // until the next extension, the vote lasts as long as a new vote
		case had.ends > v.now.Slow:
			until = had.ends // the lease isn't over, so its lock-delay doesn't begin yet
		}
		g.key.votes.replace(g, e)
		if e.try {
			g.key.voted++
		}
		e.s.digest = e.s.digest.Plus(vote.DigestOfVote(e.serial))
		if had.timed != 0 {
			v.spares.coldFor(e).timed = had.timed // the vote keeps its serial, and so its timers
		}
		if until != 0 {
			v.spares.coldFor(e).until = until
			v.remind(e, until)
		} else {
			v.awaitExtension(e)
		}
		v.spares.discard(g)
		v.forgetTaken(e.key) // the request may not have won, after all
		return true
	}
	return false
}

// takeBack ends an entry's own residual vote, if the entry is next in the queue and nothing else
// keeps the key from the entry, and reports whether it did. The vote has outlasted its length, but
// the entry is still here, and its owner has reported that the lease goes on, or hasn't won. No
// other request has had the key here since, and lock-delay and minimum hold apply when the lease
// ends; so the entry needn't wait for its own residual vote. Nor is the residual vote to stay
// beside a new one, where there is room for both: inspections would show one lease as held and as
// over. (A residual vote for a permit stays while an earlier request waits for its slot.)
//
// The refresh by which the entry goes on may have been sent before a win whose report is lost. So
// if the owner falls silent again, the key rests for as long as the residual vote would have kept
// it.
func (l *voteLayer) takeBack(e *entry, spokenFor *slots) bool {
	if len(l.votes.residuals[e.s.id][e.number]) == 0 {
		return false
	}
	l.spend(len(e.key.votes.all()) / scanned)
	var own *entry
	for _, f := range e.key.votes.all() {
		switch {
		case f.residual && f.s.id == e.s.id && f.number == e.number && !spokenFor.has(f.slot):
			own = f
		case !e.compatible(f):
			return false
		}
	}
	if own == nil {
		return false
	}
	if f := e.key.inSlot(e.wantedSlot); e.wantedSlot != 0 && f != nil && f != own && e.blockedBy(f) {
		return false // there is no room yet
	}
	l.lapsed()
	l.spares.coldFor(e).rest = own.cold().until
	l.votes.residuals.remove(own)
	l.unvote(own)
	l.spares.discard(own)
	return true
}

// unlisted ends the residual votes of leases with a length, for a request missing in the session's
// newest sync: the owner has given the leases back, or may have lost them. The consequences of the
// leases' end (lock-delay, minimum hold) take effect now.
func (v *Voter) unlisted(s *session, n vote.Number) {
	if s.entries.m[n] != nil {
		return
	}
	for _, g := range slices.Clone(v.votes.residuals[s.id][n]) {
		if g.cold().length == 0 {
			continue
		}
		v.report(vote.Ended, g)
		x := v.spares.coldFor(g)
		x.length, x.until = 0, 0 // the rest of the lease itself ends
		if x.until = v.stays(g, true); x.until <= v.now.Slow {
			v.expireResidual(g)
		} else {
			v.remind(g, x.until)
		}
	}
}

// expireResidual expires a residual vote, and frees its memory. Since the voters' clocks differ,
// the vote doesn't expire everywhere at once. The next request may have to wait for the votes of
// voters where the residual vote still stands, and this wait doesn't count toward the request's
// proposal timeout: otherwise the request would be demoted here, and another request at another
// voter.
func (v *Voter) expireResidual(g *entry) {
	k := g.key
	v.lapsed()
	v.votes.residuals.remove(g)
	if g.cold().length > 0 {
		v.report(vote.Ended, g)
	}
	token, exclusive := g.token, g.mode == vote.Exclusive && g.wonAt != 0
	by := freed{grace: vote.Drift(v.now.Slow.Sub(g.since))}
	v.unvote(g)
	if exclusive {
		k.over = max(k.over, token)
	}
	v.forgetTaken(k)
	v.scheduleFreed(k, by)
	if k.idleNow() {
		v.forgetLater(k)
	}
	v.spares.discard(g)
}

// extend makes a vote last for its request's length from now.
func (v *Voter) extend(s *session, m *vote.Message) {
	e := s.entries.m[m.Number]
	if e == nil || v.quiet.broken {
		return
	}
	if m.TTL > 0 {
		if v.spares.coldFor(e).lasts = m.TTL; e.held {
			e.ends(v.now.Slow)
		}
	}
	if e.cold().length == 0 {
		return
	}
	if e.serial == 0 || e.serial != m.Serial {
		if e.voteLapsed {
			if e.held {
				v.wins(e)
			}
			v.revive(e)
			v.grantVotes(e.key)
		}
		return
	}
	x := e.coldFields
	// Under a shorter maximum TTL the vote doesn't end sooner than promised: its owner counts on an
	// extension under the electorate before (found by worlds with dynamic membership).
	x.until = max(x.until, v.now.Slow.Add(min(x.length, v.grantLimit())))
	x.unextended = 0
	v.remind(e, x.until)
	p := v.push(s, vote.KindExtended, e.number)
	p.Serial, p.Sent, p.Epoch = e.serial, m.Sent, v.electorate.Version
}

// awaitExtension has a new vote for a request with a length end after the length, unless the owner
// extends the vote before. Otherwise the key would be blocked until the end of the session, which
// may be far longer than the length, where the owner has crashed between the vote and its
// extension. The validity of a lease with a length comes from extensions alone, so no lease rests
// on a vote that was never extended.
func (l *voteLayer) awaitExtension(e *entry) {
	x := e.cold()
	if x.length == 0 {
		return
	}
	x.unextended = l.now.Slow.Add(x.length)
	l.remind(e, x.unextended)
}

// end returns when a vote ends that has an end of its own; zero if it has none.
func (x *coldFields) end() vote.Instant { return max(x.until, x.unextended) }

// outlasted ends a vote after its time is over.
func (v *Voter) outlasted(e *entry) {
	if e.residual {
		v.expireResidual(e)
		return
	}
	k := e.key
	v.lapsed()
	v.push(e.s, vote.KindLapsed, e.number).Serial = e.serial
	if e.held || e.cold().until != 0 {
		v.report(vote.Ended, e)
		e.announced = false
	}
	x := v.spares.coldFor(e)
	unused := x.unextended != 0 && !e.held
	x.until = 0
	// Held or not: the request may have won, and the report of the win may be lost
	until := v.stays(e, true)
	if unused {
		until = x.rest // no lease rests on a vote that was never extended, but one may on a former vote
	}
	if until > v.now.Slow {
		v.leaveResidual(e, until, true)
	} else {
		v.unvote(e)
	}
	if !e.held {
		v.demote(e) // the owner reaches no majority, is silent, or has had its lease
	}
	v.lapse(e)
	k.insert(e)
	v.forgetTaken(k)
	v.schedule(k)
}
