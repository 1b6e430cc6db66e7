package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

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
		r.votes[p.place].taken = m.Token
		q.judge(r)
	case vote.KindReleased:
		if r.state == stateEnding {
			q.hearReleased(p, r)
		}
	case vote.KindBusy:
		q.turnedDown(p, r)
	}
}

// turnedDown takes a voter's word that it is too full to take the request in. It has nothing of it, then.
func (q *Requester) turnedDown(p *peer, r *request) {
	v := &r.votes[p.place]
	if !v.asked || v.busy {
		return
	}
	v.busy, v.asked, v.released = true, false, true
	p.book.hear(p.heard, vote.Ledger{}.Minus(vote.OfRequest(r.number)))
	if r.state != stateEnding {
		q.judge(r)
		return
	}
	if v.relStream == p.stream { // it crossed our release, which we thought would take the request out
		p.book.amend(v.relAt, vote.OfRequest(r.number))
	}
	q.settleEnd(r)
}

// promised takes in a vote.
func (q *Requester) promised(p *peer, r *request, m *vote.Message) {
	p.book.hear(p.heard, vote.OfVote(m.Serial))
	q.seen = max(q.seen, m.Token)
	v := &r.votes[p.place]
	switch {
	case r.state == stateEnding:
		if v.relStream == p.stream { // it crossed our release, which takes it back
			p.book.amend(v.relAt, vote.Ledger{}.Minus(vote.OfVote(m.Serial)))
		}
	case m.Serial <= v.yielded || m.Serial <= v.serial:
		// A late word of a vote that we gave back. Counting it would count a vote that another has by now.
	default:
		v.serial, v.token, v.asking, v.taken = m.Serial, m.Token, 0, 0
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
		q.count.Yields++
		v.drop() // before the voter may give it to another
		v.yielded = m.Serial
		q.say(p, vote.Ledger{}.Minus(vote.OfVote(m.Serial)), vote.Message{Kind: vote.KindYield, Number: r.number, Serial: m.Serial})
	}
}

// judgeAll judges every request anew, since a voter's votes have changed.
func (q *Requester) judgeAll() {
	for _, r := range q.sorted(nil) {
		q.judge(r)
	}
}

// judgePending judges what waits anew, since a voter has come or gone. Leases don't feel that: they rest on time.
func (q *Requester) judgePending() {
	for _, r := range q.sorted(func(r *request) bool { return r.state == statePending }) {
		q.judge(r)
	}
}

// judge finds out what has become of a request: pending, won or lost; and for a lease, who stands behind it.
func (q *Requester) judge(r *request) {
	switch r.state {
	case stateWon:
		q.confirm(r, r.token)
		q.regroup(r)
	case statePending:
		e := q.cfg.Electorate
		if e.Decides(r.set()) {
			t := r.ballot.token()
			q.confirm(r, t)
			if set := r.ballot.confirmed(t); e.Decides(set) {
				if q.deadline(set) > q.now.Fast {
					q.win(r, t)
					return
				}
				if !r.waiting {
					r.waiting = true
					q.uncovered = append(q.uncovered, r)
				}
			}
		}
		q.judgeHope(r)
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
			q.say(p, vote.Ledger{}, vote.Message{
				Kind: vote.KindConfirm, Number: r.number, Serial: v.serial, Token: t, Won: r.state == stateWon,
			})
		}
	}
}

// win makes a lease of a request: a majority has voted for its token and is covered.
func (q *Requester) win(r *request, t vote.Token) {
	r.state, r.token = stateWon, t
	q.seen = max(q.seen, t)
	q.count.Wins++
	if !r.confirmed {
		q.count.FirstRound++
	}
	q.regroup(r)
	q.tell(Event{Kind: EventGranted, Number: r.number, Token: t, Group: r.group.id})
	for _, p := range q.peers {
		if p.up() && r.votes[p.place].asked {
			q.report(p, r)
		}
	}
}

// report tells a voter that the request has won. One that hasn't voted for it puts it first in its queue.
func (q *Requester) report(p *peer, r *request) {
	v := &r.votes[p.place]
	if v.stands() {
		v.asking = r.token
	}
	q.say(p, vote.Ledger{}, vote.Message{Kind: vote.KindConfirm, Number: r.number, Serial: v.serial, Token: r.token, Won: true})
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
		if p.refused != vote.ReasonNone || v.busy {
			never = never.With(p.place)
		}
		if p.hopeless() {
			notNow = notNow.With(p.place)
		}
	}
	e := q.cfg.Electorate
	if !e.Decides(e.All()&^never) || r.try && (!e.Decides(e.All()&^(never|notNow)) || !e.Decides(e.All()&^r.taken())) {
		q.fail(r, q.why(r))
	}
}
