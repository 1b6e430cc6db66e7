package quorum

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// hear takes in an ordered message on a voter's current stream.
func (q *Requester) hear(p *peer, m *vote.Message) {
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
	case vote.KindTaken:
		q.rareVote(r, p.place).taken = m.Token
		q.askRest(r)
		q.judge(r)
	case vote.KindReleased:
		if r.state == stateEnding {
			q.hearReleased(p, r)
		}
	case vote.KindBusy, vote.KindUnfit:
		q.turnedDown(p, r, m.Permits)
	case vote.KindClash:
		if r.state == statePending {
			q.fail(r, WaitClash)
		}
	case vote.KindExtended:
		q.extended(p, r, m)
	case vote.KindLapsed:
		q.lapsed(p, r, m)
	case vote.KindNoted:
		q.noted(p, r, m)
	case vote.KindWanted:
		q.wanted(p, r, m)
	}
}

// turnedDown takes a voter's word that it doesn't take the request in: it is too full, or knows the key with other permits. It has nothing of it, then.
func (q *Requester) turnedDown(p *peer, r *request, permits uint16) {
	v := &r.votes[p.place]
	if !v.asked || v.busy || v.unfit != 0 {
		return
	}
	v.busy, v.unfit, v.asked, v.released = permits == 0, permits, false, true
	q.turned = true
	p.book.hear(p.heard, vote.Ledger{}.Minus(vote.OfRequest(r.number)))
	if r.state != stateEnding {
		q.askRest(r)
		q.judge(r)
		return
	}
	if r.releasedOn(p.place, p.stream) { // it crossed our release, which we thought would take the request out
		p.book.amend(r.rareOf(p.place).relAt, vote.OfRequest(r.number))
	}
	q.settleEnd(r)
}

// promised takes in a vote.
func (q *Requester) promised(p *peer, r *request, m *vote.Message) {
	p.book.hear(p.heard, vote.OfVote(m.Serial))
	q.seen = max(q.seen, m.Token)
	r.wanted = r.wanted || m.Urge
	v := &r.votes[p.place]
	switch {
	case r.state == stateEnding:
		if r.releasedOn(p.place, p.stream) { // it crossed our release, which takes it back
			p.book.amend(r.rareOf(p.place).relAt, vote.Ledger{}.Minus(vote.OfVote(m.Serial)))
		}
	case m.Serial <= r.yielded(p.place) || m.Serial <= v.serial:
		// A late word of a vote that we gave back. Counting it would count a vote that another has by now.
	default:
		r.drop(p.place)
		v.serial, v.slot, v.token = m.Serial, m.Slot, m.Token
		if x := r.rareOf(p.place); x != nil {
			x.taken = 0
		}
		q.settleWant(r, p.place)
		q.judge(r)
	}
}

// reconfirmed takes a voter's word that its vote has another token now. For a lease only the lease's own token matters: an answer
// to an earlier round of the ballot may still be under way, and the voter's vote for the lease stands all the same.
func (q *Requester) reconfirmed(p *peer, r *request, m *vote.Message) {
	v := &r.votes[p.place]
	if !v.stands() || v.serial != m.Serial || r.state == stateEnding || r.state == stateWon && m.Token != r.token {
		return
	}
	v.token = m.Token
	q.judge(r)
}

// inquired answers a voter that asks whether its vote has won: we yield it, or say that we hold.
func (q *Requester) inquired(p *peer, r *request, m *vote.Message) {
	v := &r.votes[p.place]
	if !v.stands() || v.serial != m.Serial {
		return
	}
	switch r.state {
	case stateWon:
		q.report(p, r)
	case statePending:
		q.yield(p, r, 0)
	}
}

// yieldEvery is how often a voter is told at most, by a refresh, that this node reaches a majority, since a vote was given back. A voter that has passed over a
// request whose tenure was over, as everything was slow, lets it wait by its age alone again when it hears that; else it would be served last until the
// next refresh.
const yieldEvery = 50 * time.Millisecond

// yield gives a voter's vote back; with a slot, since only that one is of use.
func (q *Requester) yield(p *peer, r *request, want vote.Slot) {
	v := &r.votes[p.place]
	q.count.Yields++
	serial := v.serial
	r.drop(p.place) // before the voter may give it to another
	m := q.say(p, vote.Ledger{}.Minus(vote.OfVote(serial)), vote.KindYield, r.number)
	m.Serial, m.Slot = serial, want
	x := q.rareVote(r, p.place)
	x.yielded, x.want, x.yieldStream, x.yieldAt = serial, want, p.stream, p.said
	if q.Ready() {
		p.refreshAt = min(p.refreshAt, p.refreshed.Add(yieldEvery))
	}
}

// judgeAll judges every request anew, in order, since a voter's votes have changed.
func (q *Requester) judgeAll(all []*request) {
	for _, r := range all {
		q.judge(r) // if it is gone meanwhile, it has ended, and nothing comes of it
	}
}

// judgePending judges what waits anew, since a voter has come or gone. Leases don't feel that: they rest on time.
func (q *Requester) judgePending() {
	if len(q.pending) == 0 {
		return // it costs the same however many leases are held
	}
	for _, r := range byNumber(slices.Clone(q.pending)) {
		q.judge(r)
	}
}

// judge finds out what has become of a request: pending, won or lost; and for a lease, who stands behind it.
func (q *Requester) judge(r *request) {
	switch r.state {
	case stateWon:
		q.moveTo(r, r.slot)
		q.confirm(r, r.token)
		if r.length() > 0 && !r.fixed() {
			q.extendNew(r, ^Set(0))
		}
		q.regroup(r)
	case statePending:
		if slot, ok := q.elected(r); ok {
			if t, agreed := q.agreed(r); agreed && q.winsWith(r, t, slot) {
				return
			}
			// What a majority agrees on is of no use while it isn't covered: one of them may be gone for good. So the others are asked to confirm in any case.
			largest := r.ballot.token(slot)
			q.confirm(r, largest)
			if q.winsWith(r, largest, slot) {
				return
			}
			q.moveTo(r, slot) // for the same reason: the votes for another slot may be needed
		}
		q.judgeHope(r)
	}
}

// winsWith makes a lease of a request if a majority has voted for its token and is covered, and reports whether it did.
func (q *Requester) winsWith(r *request, t vote.Token, slot vote.Slot) bool {
	set := r.ballot.confirmed(t, slot)
	if !q.decides(set) || !q.covers(r, set) {
		return false
	}
	q.win(r, t, slot)
	return true
}

// agreed returns the token for which a majority has voted already, if there is one. Another voter may have proposed a larger one: that is as if its word came later.
// Whatever lease has a token that large, a voter of this majority knows of it. Nor does it matter if one of them has been asked to confirm a larger one meanwhile: whoever
// gets the key next has a larger token than that, too. Of leases that are shared each must have a token of its own, so there the largest proposal decides.
func (q *Requester) agreed(r *request) (vote.Token, bool) {
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
		if q.decides(same) {
			return t, true
		}
	}
	return 0, false
}

// covers reports whether a majority of the voters of a set is covered, and sees to it that it will be.
func (q *Requester) covers(r *request, set Set) bool {
	if q.isCovered(r, set) {
		return true
	}
	if r.length() > 0 {
		q.extendNew(r, set)
		q.keepUp(r)
	}
	q.await(r)
	return false
}

// isCovered reports whether a lease that is won now, by the votes of a set, lasts. Where it rests on the version of the electorate before the newest, it must last for another
// refresh at least: that version only counts for a while, and in its last moment a lease would be lost as it is granted. The votes that make it one
// of the newest version are on their way then; while they aren't, it would be of no use.
func (q *Requester) isCovered(r *request, set Set) bool {
	every := q.every()
	if r.length() > 0 {
		every = extendEvery(r)
	}
	until := q.deadlines(r, set)
	return until.newest > q.now.Fast || until.before > q.now.Fast.Add(every)
}

// await has a request judged anew whenever it is reckoned until when sessions are covered.
func (q *Requester) await(r *request) {
	if !r.waiting {
		r.waiting = true
		q.uncovered = append(q.uncovered, r.number)
	}
}

// confirm asks those voters whose votes have another token to take the ballot's.
func (q *Requester) confirm(r *request, t vote.Token) {
	for _, p := range q.peers {
		v := &r.votes[p.place]
		if v.stands() && v.token != t && v.asking != t && p.up() {
			v.asking = t
			r.confirmed = true
			q.count.Confirmations++
			slot := v.slot
			if r.state == stateWon {
				slot = r.slot // what the voter is told of a lease is the lease's, whatever its vote is for
			}
			m := q.say(p, vote.Ledger{}, vote.KindConfirm, r.number)
			m.Serial, m.Token, m.Slot, m.Won = v.serial, t, slot, r.state == stateWon
		}
	}
}

// win makes a lease of a request: a majority has voted for its token and is covered.
func (q *Requester) win(r *request, t vote.Token, slot vote.Slot) {
	remove(&q.pending, r)
	r.state, r.token, r.slot = stateWon, t, slot
	q.seen = max(q.seen, t)
	q.count.Wins++
	if !r.confirmed {
		q.count.FirstRound++
	}
	q.regroup(r)
	if r.fixed() {
		q.letGo(r)
		q.extend(r, q.old(r))
	} else if r.length() > 0 {
		q.keepUp(r)
	}
	e := q.tell(EventGranted, r.user)
	e.Token, e.Group, e.Slot = t.First(), r.group.id, slot
	q.moveTo(r, slot)
	for _, p := range q.peers {
		if p.up() && r.votes[p.place].asked {
			q.report(p, r)
			if q.isLonely(r) {
				q.later() // nobody waits to hear this, and a release that comes soon carries it along
			}
		}
	}
}

// report tells a voter that the request has won. One that hasn't voted for it puts it first in its queue.
func (q *Requester) report(p *peer, r *request) {
	v := &r.votes[p.place]
	if v.stands() {
		v.asking = r.token
	}
	m := q.say(p, vote.Ledger{}, vote.KindConfirm, r.number)
	m.Serial, m.Token, m.Slot, m.Won = v.serial, r.token, r.slot, true
}

// judgeHope ends a request that can't be granted: any request as soon as so many voters refuse us, or are full, that no majority
// is left; a TryLock also as soon as so many can't be reached or don't count, or as so many say that another has won.
//
// One voter's word that another has won isn't enough: it may not have heard of a release yet that a majority has confirmed.
// When it has, it serves the TryLock after all. Nor do such words about several leases add up.
func (q *Requester) judgeHope(r *request) {
	var never, notNow Set
	for _, p := range q.peers {
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
	}
	if never|notNow == 0 && r.rare == nil && q.newest.Known() {
		return // nobody has said anything that speaks against it
	}
	hope := func(without Set) bool { return q.decides(^without) }
	if q.newest.Known() && !hope(never) || r.try && (!hope(never|notNow) || !hope(r.taken())) {
		q.fail(r, q.why(r))
	}
}
