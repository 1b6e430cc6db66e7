package quorum

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// receive takes in an ordered message on a voter's current stream.
func (q *Requester) receive(p *peer, m *vote.Message) {
	r := q.requests[m.Number]
	if r == nil {
		return
	}
	switch m.Kind {
	case vote.KindPromise:
		q.promised(p, r, m)
	case vote.KindConfirmed:
		q.reconfirmed(p, r, m)
	case vote.KindInquire:
		q.inquired(p, r, m)
	case vote.KindHeld:
		if !q.accepts(p, m.Token) {
			break
		}
		q.coldVote(r, p.place).taken = m.Token
		q.deliverer().sendDeferred(r)
		q.evaluate(r)
	case vote.KindReleased:
		if r.state == stateEnding {
			q.deliverer().receiveReleased(p, r)
		}
	case vote.KindBusy, vote.KindPermitsDiffer:
		q.receiveRejection(p, r, m.Permits)
	case vote.KindClash:
		if r.state == statePending {
			q.fail(r, WaitClash)
		}
	case vote.KindExtended:
		q.extended(p, r, m)
	case vote.KindLapsed:
		q.lapsed(p, r, m)
	case vote.KindValueStored:
		q.noted(p, r, m)
	case vote.KindContended:
		q.receiveContended(p, r, m)
	}
}

// receiveRejection takes in a voter's refusal of a request: the voter is full, or knows the key
// with another number of permits. The voter keeps nothing of the request.
func (q *Requester) receiveRejection(p *peer, r *request, permits uint16) {
	v := &r.votes[p.place]
	if !v.sent || v.busy || v.unfit != 0 {
		return
	}
	v.busy, v.unfit, v.sent, v.released = permits == 0, permits, false, true
	q.rejected = true
	p.digest.addReceived(p.received, vote.Digest{}.Minus(vote.DigestOfRequest(r.number)))
	if r.state != stateEnding {
		q.deliverer().sendDeferred(r)
		q.evaluate(r)
		return
	}
	// The refusal crossed the release, which was expected to remove the request from the digest.
	if r.releasedOn(p.place, p.stream) {
		p.digest.amend(r.coldOf(p.place).relAt, vote.DigestOfRequest(r.number))
	}
	q.settleEnd(r)
}

// promised takes in a vote.
func (q *Requester) promised(p *peer, r *request, m *vote.Message) {
	p.digest.addReceived(p.received, vote.DigestOfVote(m.Serial))
	q.noteToken(p, m.Token)
	r.contended = r.contended || m.Revoke
	v := &r.votes[p.place]
	switch {
	case r.state == stateEnding:
		// The vote crossed the release, which takes the vote back.
		if r.releasedOn(p.place, p.stream) {
			x := r.coldOf(p.place)
			x.relSerial = m.Serial
			p.digest.amend(x.relAt, vote.Digest{}.Minus(vote.DigestOfVote(m.Serial)))
		}
	case m.Serial <= r.yielded(p.place) || m.Serial <= v.serial:
		// A late message about a vote given back. By now another request may have the vote, so it
		// must not be counted here.
	default:
		r.drop(p.place)
		v.serial, v.slot, v.token = m.Serial, m.Slot, m.Token
		if x := r.coldOf(p.place); x != nil {
			x.taken = 0
		}
		q.settleWantedSlot(r, p.place)
		q.evaluate(r)
	}
}

// reconfirmed takes in a voter's message that its vote has another token now. For a lease only the
// lease's own token matters: an answer to an earlier confirmation round may still be under way, and
// the voter's vote for the lease holds in any case.
func (q *Requester) reconfirmed(p *peer, r *request, m *vote.Message) {
	v := &r.votes[p.place]
	if !v.stands() || v.serial != m.Serial || r.state == stateEnding || r.state == stateWon && m.Token != r.token {
		return
	}
	q.noteToken(p, m.Token)
	v.token = m.Token
	q.evaluate(r)
}

// inquired answers a voter's inquiry whether its vote has won: a pending request yields the vote,
// and a lease is reported.
func (l *requestLayer) inquired(p *peer, r *request, m *vote.Message) {
	v := &r.votes[p.place]
	if !v.stands() || v.serial != m.Serial {
		return
	}
	switch r.state {
	case stateWon:
		l.report(p, r)
	case statePending:
		l.yield(p, r, 0)
	}
}

// yieldEvery is the least time between refreshes that tell a voter, after a vote was given back or
// has lapsed, that this node reaches a majority. A voter may have passed over a request at the end
// of its proposal timeout, since all messages were slow. Upon such a refresh the voter queues the
// request by its age alone again; otherwise the request would be scheduled last until the next
// regular refresh.
const yieldEvery = 50 * time.Millisecond

// refreshSoon has a voter's session refreshed out of turn, if this node reaches a majority.
func (l *requestLayer) refreshSoon(p *peer) {
	if l.linked() {
		p.refreshAt = min(p.refreshAt, p.refreshed.Add(yieldEvery))
	}
}

// yield gives back a voter's vote. If wanted isn't zero, it names the only slot of use to the
// request.
func (l *requestLayer) yield(p *peer, r *request, wanted vote.Slot) {
	v := &r.votes[p.place]
	l.count.Yields++
	serial := v.serial
	r.drop(p.place) // before the voter may give the vote to another request
	m := l.sendOrdered(p, vote.Digest{}.Minus(vote.DigestOfVote(serial)), vote.KindYield, r.number)
	m.Serial, m.Slot = serial, wanted
	x := l.coldVote(r, p.place)
	x.yielded, x.wantedSlot, x.yieldStream, x.yieldAt = serial, wanted, p.stream, p.sent
	l.refreshSoon(p)
}

// evaluateAll evaluates the given requests anew, in order, since a voter's votes have changed.
func (q *Requester) evaluateAll(all []*request) {
	q.spend(costEvaluated * len(all))
	for _, r := range all {
		q.evaluate(r) // a request gone meanwhile has ended, and nothing happens
	}
}

// evaluatePending evaluates the pending requests anew, since a voter has come or gone. Leases
// aren't affected: they rest on time.
func (q *Requester) evaluatePending() {
	if len(q.pending) == 0 {
		return // the cost doesn't depend on the number of held leases
	}
	if len(q.pending) > q.budget() {
		q.review.begin(q.pass())
		return
	}
	q.spend(costEvaluated * len(q.pending))
	for _, r := range byNumber(slices.Clone(q.pending)) {
		q.evaluate(r)
	}
}

func (q *Requester) continueReview() {
	for q.review.next != nil && !q.exhausted() {
		r := q.review.take()
		if r == nil {
			if q.review.again {
				q.review.again, q.review.pass = false, q.pass()
			}
			continue
		}
		q.spend(1)
		if r.state == statePending {
			q.spend(costEvaluated - 1)
			q.evaluate(r)
		}
	}
}

// evaluate evaluates a request: pending, won or lost; for a lease, which voters support it.
func (q *Requester) evaluate(r *request) {
	switch r.state {
	case stateWon:
		q.moveTo(r, r.slot)
		q.confirm(r, r.token)
		switch {
		case r.length() == 0:
		case r.fixed():
			q.extendLate(r)
		default:
			q.extendNew(r, ^Set(0))
		}
		q.regroup(r)
	case statePending:
		if slot, ok := q.agreedSlot(r); ok {
			if t, agreed := q.agreedToken(r); agreed && q.winsWith(r, t, slot) {
				return
			}
			// A majority in agreement is of no use while it isn't valid: one of its voters may be
			// gone for good. So the other voters are asked to confirm in any case.
			largest := q.deliverer().largest(r, slot)
			q.confirm(r, largest)
			if q.winsWith(r, largest, slot) {
				return
			}
			q.moveTo(r, slot) // for the same reason: the votes for another slot may be needed
		}
		q.failHopeless(r)
	}
}

// winsWith grants a request if a majority has voted for the token and is valid, and reports
// whether the request was granted.
func (q *Requester) winsWith(r *request, t vote.Token, slot vote.Slot) bool {
	set := r.tally.confirmed(t, slot)
	if !q.decides(set) || !q.ensureValid(r, set) {
		return false
	}
	q.win(r, t, slot)
	return true
}

// agreedToken returns the token for which a majority has voted already, if any. A larger token
// proposed by another voter can be ignored, as if the proposal had arrived late: if a lease has a
// token as large, a voter of this majority knows of the lease. Nor does it matter if a voter of
// this majority was asked meanwhile to confirm a larger token: the next lease of the key gets a
// larger token still. Shared leases and permits need distinct tokens, so there the largest proposal
// decides.
func (l *requestLayer) agreedToken(r *request) (vote.Token, bool) {
	if r.mode != vote.Exclusive {
		return 0, false
	}
	for i := range r.votes {
		t := r.votes[i].token
		if !r.votes[i].stands() {
			continue
		}
		var same Set
		for j := range r.votes {
			if v := &r.votes[j]; v.stands() && v.token == t {
				same = same.With(j)
			}
		}
		if l.decides(same) {
			return t, true
		}
	}
	return 0, false
}

// ensureValid reports whether a majority of a set's voters is valid and will keep the key for the
// minimum hold. If not, ensureValid takes the steps to get there.
func (l *leaseLayer) ensureValid(r *request, set Set) bool {
	if l.isValid(r, set) && l.isKept(r, set) {
		return true
	}
	if r.length() > 0 {
		l.extendNew(r, set)
		l.startExtending(r)
	}
	l.awaitValidity(r)
	return false
}

// isValid reports whether a lease won now, by the votes of a set, lasts. Under the electorate
// before the newest, the lease must last for at least another refresh: the earlier electorate
// counts only for a while, and in its last moment a lease would be lost as soon as granted. The
// votes for a lease under the newest electorate are on their way then; while they aren't, the lease
// would be of no use.
func (l *requestLayer) isValid(r *request, set Set) bool {
	every := l.every()
	if r.length() > 0 {
		every = l.extendEvery(r)
	}
	until := l.deadlines(r, set)
	return until.newest > l.now.Fast || until.before > l.now.Fast.Add(every)
}

// confirm asks the voters with votes for another token to confirm the given token. A voter whose
// answer to the sync of its stream is under way is asked after the answer, which has the vote's
// former token, and from which the requester takes the vote.
func (l *requestLayer) confirm(r *request, t vote.Token) {
	for _, p := range l.peers {
		v := &r.votes[p.place]
		if v.stands() && v.token != t && v.confirming != t && p.up() && (r.state == stateWon || p.answeredAbout(r)) {
			v.confirming = t
			r.confirmed = true
			l.count.Confirmations++
			slot := v.slot
			if r.state == stateWon {
				// A voter is told the slot of the lease, whatever slot its vote is for.
				slot = r.slot
			}
			m := l.sendOrdered(p, vote.Digest{}, vote.KindConfirm, r.number)
			m.Serial, m.Token, m.Slot, m.Won = v.serial, t, slot, r.state == stateWon
		}
	}
}

// win grants a request: a majority has voted for its token and is valid.
func (q *Requester) win(r *request, t vote.Token, slot vote.Slot) {
	q.beforeChange(r)
	q.leavePending(r)
	r.become(stateWon)
	r.token, r.slot = t, slot
	q.stamps.note(t)
	q.count.Wins++
	if !r.confirmed {
		q.count.FirstRound++
	}
	upgraded := r.cold != nil && r.cold.ends != 0
	if x := r.cold; x != nil && !upgraded && x.opts.EndsAfter > 0 {
		x.ends = q.now.Fast.Add(x.opts.EndsAfter)
	}
	q.regroup(r)
	if r.fixed() {
		r.cold.lengthFrom = q.now.Fast
		q.lengths.stop(r)
		q.extend(r, q.old(r))
	} else if r.length() > 0 {
		q.startExtending(r)
	}
	e := q.emit(EventGranted, r.caller)
	e.Token, e.Group, e.Slot = t.First(), r.group.id, slot
	q.moveTo(r, slot)
	for _, p := range q.peers {
		if p.up() && r.votes[p.place].sent {
			q.report(p, r)
			if q.isUncontended(r) {
				// No request waits for the report, and a release soon afterwards takes the report
				// along.
				q.later(p)
			}
		}
	}
	if upgraded {
		q.sendEnd(r)
	}
}

// report tells a voter that the request has won. A voter without a vote for the request puts it
// first in its queue.
func (l *requestLayer) report(p *peer, r *request) {
	v := &r.votes[p.place]
	if v.stands() {
		v.confirming = r.token
	}
	m := l.sendOrdered(p, vote.Digest{}, vote.KindConfirm, r.number)
	m.Serial, m.Token, m.Slot, m.Won = v.serial, r.token, r.slot, true
}

// failHopeless ends a request that can't be granted. Any request fails as soon as so many voters
// refuse this node, or are full, that no majority is left. A TryLock fails also as soon as too many
// voters are unreachable or don't count, or enough voters report that another request has won. A
// request turned down for its number of permits doesn't wait for unreachable voters either: a vote
// kept meanwhile may be the vote missing for a request with the other number, and a voter gives no
// vote to either request while the other has a vote there. With one of three voters down, each
// request would keep a vote without end. (Found by worlds with dynamic membership.)
//
// A single voter's report that another request has won isn't enough: the voter may not have heard
// yet of a release confirmed by a majority. When the release arrives, the voter schedules the
// TryLock after all. Reports about different leases are not added, and reports of new voters alone
// prove nothing.
func (q *Requester) failHopeless(r *request) {
	never, notNow, unfit := q.against(r)
	if never|notNow == 0 && r.cold == nil && q.newest.Known() {
		return // no voter has said anything against the request
	}
	hope := func(without Set) bool { return q.decides(^without) }
	switch {
	case q.newest.Known() && !hope(never), r.try && (!hope(never|notNow) || q.knowsHeld(r.taken())):
		q.fail(r, q.waitReason(r))
	case q.newest.Known() && unfit != 0 && !hope(never|notNow):
		q.fail(r, WaitUnfit)
	}
}

// against returns the voters against a request: the voters that never vote for it, in their present
// state; the voters that vote for no request for now; and, among the former, the voters that know
// the key with another number of permits.
func (l *requestLayer) against(r *request) (never, notNow, unfit Set) {
	for _, p := range l.peers {
		v := &r.votes[p.place]
		if v.stands() {
			continue
		}
		if p.refused != vote.ReasonNone || v.busy || v.unfit != 0 {
			never = never.With(p.place)
		}
		if p.hopeless() {
			notNow = notNow.With(p.place)
		}
		if v.unfit != 0 {
			unfit = unfit.With(p.place)
		}
	}
	return never, notNow, unfit
}
