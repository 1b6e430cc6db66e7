package quorum

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A lease may have a length of its own, shorter or longer than its node's session. Then each of its
// votes has its own deadline: the vote is extended separately, and supports the lease separately.
// This costs a message for each lease and voter, so it is for few leases; all others rest on the
// session.

// extend asks the voters of a set to extend their votes for a request by its length from now. The
// request must have a length.
func (l *requestLayer) extend(r *request, set Set) {
	for _, p := range l.peers {
		v, x := &r.votes[p.place], r.coldOf(p.place)
		if set.Has(p.place) && v.stands() && !x.extending && p.up() && p.answeredAbout(r) {
			x.extending = true
			m := l.sendOrdered(p, vote.Digest{}, vote.KindExtend, r.number)
			m.Serial, m.Sent, m.TTL = v.serial, l.now.Fast, r.endsAfter(l.now.Fast)
		}
	}
}

// Extend makes a lease that is to end by itself last for d from now, as far as the voters are
// concerned; ends is how long from now the node then ends the lease, for display to other nodes. A
// lease with votes as lasting as its node's session needs no extension: voters are only told of
// ends. The votes of a lease with a length are extended at once, and EventExtended reports the
// confirmation by a majority. If d exceeds the length, the votes are extended further until the
// lease is released: its node ends it.
//
// Extend reports whether there is such a lease. If the voters have to confirm, an EventExtended
// with an Until of at least confirmed will follow; otherwise confirmed is zero.
func (q *Requester) Extend(now vote.Now, n vote.Number, d, ends time.Duration) (held bool, confirmed vote.Instant) {
	q.begin(now)
	r := q.find(n)
	if r == nil || r.state != stateWon {
		return false, 0
	}
	q.beforeChange(r)
	x := q.coldOf(r)
	x.ends = q.now.Fast.Add(ends)
	if r.length() == 0 {
		q.sendEnd(r)
		return true, 0
	}
	if d > q.lengthOf(r) {
		x.opts.Fixed = false
	}
	length := q.lengthOf(r)
	// No earlier than an earlier call's, which the same event confirms, though the voters may have
	// lowered the maximum TTL since.
	x.extendTo = max(x.extendTo, q.now.Fast.Add(vote.Validity(length)-vote.Margin(length)))
	x.lengthFrom = q.now.Fast
	q.startExtending(r) // at least until extendTo is reached
	for i := range x.votes {
		// An answer to an earlier extension doesn't confirm this extension.
		x.votes[i].extending = false
	}
	q.extend(r, ^Set(0))
	return true, x.extendTo
}

// sendEnd tells the voters how much longer a lease lasts. It extends no vote: no serial is named.
func (l *requestLayer) sendEnd(r *request) {
	for _, p := range l.peers {
		if p.up() && r.votes[p.place].sent {
			m := l.sendOrdered(p, vote.Digest{}, vote.KindExtend, r.number)
			m.Sent, m.TTL = l.now.Fast, r.endsAfter(l.now.Fast)
		}
	}
}

// settleExtended reports an extension once a majority has confirmed it.
func (l *leaseLayer) settleExtended(r *request) {
	x := r.cold
	if x.extendTo == 0 || r.state != stateWon || r.group.until < x.extendTo {
		return
	}
	e := l.emit(EventExtended, r.caller)
	e.Until, x.extendTo = x.extendTo, 0
	if r.fixed() {
		l.lengths.stop(r)
	}
}

// extended takes in a voter's confirmation that a vote was extended.
func (q *Requester) extended(p *peer, r *request, m *vote.Message) {
	v, x := &r.votes[p.place], r.coldOf(p.place)
	if r.length() == 0 || !v.stands() || v.serial != m.Serial || m.Sent > q.now.Fast {
		return
	}
	x.extending, x.extended = false, true
	if r.state == stateWon && r.fixed() && r.cold.extendTo == 0 && m.Sent > r.cold.lengthFrom {
		return // a late vote doesn't make the lease longer
	}
	// A voter answering under another electorate isn't asked again at once.
	p.ackEpoch = m.Epoch
	q.extendValidity(&x.validity, m.Epoch, m.Sent, r.length())
	switch r.state {
	case stateWon:
		q.renewals.begin()
		q.updateGroupValidity(r.group)
		if r.fixed() { // how early the application extends a lease says nothing about the voters
			q.renewals.begin()
		}
		q.reportRenewal(p, m.Sent, q.lengthOf(r))
		q.settleExtended(r)
	case statePending:
		q.evaluate(r)
	}
}

// extendNew extends the votes of a set that were never extended: new votes, and votes never
// extended under the newest electorate though their voters have reached its config epoch. All other
// votes wait until they are due; the confirmation of one extension is no reason to extend again.
func (l *requestLayer) extendNew(r *request, set Set) {
	var fresh Set
	for i := range r.votes {
		x := &r.cold.votes[i]
		if v := &r.votes[i]; set.Has(i) && v.stands() && (!x.extended || x.validity.newest == 0 && l.peers[i].ackEpoch == l.newest.version) {
			fresh = fresh.With(i)
		}
	}
	l.extend(r, fresh)
}

// extendLate extends the votes that came after the win of a lease that isn't renewed, once: a voter
// ends a vote that was never extended one length after the promise, and may then be asked for the
// key by others, in vain.
func (l *requestLayer) extendLate(r *request) {
	var late Set
	for i := range r.votes {
		if r.votes[i].stands() && !r.cold.votes[i].extended {
			late = late.With(i)
		}
	}
	l.extend(r, late)
}

// old returns the voters with votes extended more than the margin (vote.Margin) ago: a lease
// without renewal would be shorter by as much.
func (l *requestLayer) old(r *request) (s Set) {
	length := l.lengthOf(r)
	for i := range r.votes {
		if v := &r.votes[i]; v.stands() && r.cold.votes[i].validity.newest.Add(vote.Margin(length)) < l.now.Fast.Add(vote.Validity(length)) {
			s = s.With(i)
		}
	}
	return s
}

// extendEvery returns the time from one extension to the next: a fraction of the length, as for
// session refreshes, but at least a pause.
func (l *requestLayer) extendEvery(r *request) time.Duration {
	return max(l.lengthOf(r)/vote.RefreshesPerTTL, time.Millisecond)
}

// startExtending starts the periodic extension of a request's votes.
func (l *leaseLayer) startExtending(r *request) {
	l.lengths.start(r, l.now.Fast.Add(l.extendEvery(r)))
}

// extendDue extends the votes that are due.
func (l *leaseLayer) extendDue() {
	if l.now.Fast < l.lengths.next.at {
		return
	}
	l.spend(len(l.lengths.all) / scanned)
	for _, r := range l.lengths.all {
		if r == nil || r.cold.extendAt > l.now.Fast {
			continue
		}
		l.spend(1)
		r.cold.extendAt = l.now.Fast.Add(l.extendEvery(r))
		for i := range r.cold.votes {
			r.cold.votes[i].extending = false // an answer still missing may be lost with its stream
		}
		l.extend(r, ^Set(0))
	}
	l.lengths.next.stale = true
	l.lengths.first(&l.meter)
}

// lapsed takes in a voter's message that a vote has outlasted its request's length.
func (q *Requester) lapsed(p *peer, r *request, m *vote.Message) {
	p.digest.addReceived(p.received, vote.Digest{}.Minus(vote.DigestOfVote(m.Serial)))
	v, x := &r.votes[p.place], r.coldOf(p.place)
	// The message may have crossed a yield or a release of this node, which was expected to remove
	// the vote from the voter's digest.
	switch {
	case x != nil && x.yielded == m.Serial && x.yieldStream == p.stream:
		p.digest.amend(x.yieldAt, vote.DigestOfVote(m.Serial))
	case x != nil && r.state == stateEnding && x.relStream == p.stream && x.relSerial == m.Serial:
		p.digest.amend(x.relAt, vote.DigestOfVote(m.Serial))
	case v.serial == m.Serial:
		r.drop(p.place)
		switch {
		case r.state == statePending:
			q.refreshSoon(p) // upon a refresh the request may have a vote again
		case r.state == stateWon && !r.fixed():
			q.report(p, r) // the lease goes on, and wants the vote again
		}
		q.evaluate(r)
	}
}
