package quorum

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A lease may have a length of its own, shorter or longer than its node's session. Then time lives in its votes: each is extended by itself, and
// covers the lease by itself. They cost a message for each lease and voter, so this is for the few; all others live by their session.

// extend asks the voters of a set to have their votes for a request last for its length from now. The request has one.
func (q *Requester) extend(r *request, set Set) {
	for _, p := range q.peers {
		v, x := &r.votes[p.place], r.rareOf(p.place)
		if set.Has(p.place) && v.stands() && !x.extending && p.up() && p.answered {
			x.extending = true
			m := q.say(p, vote.Ledger{}, vote.KindExtend, r.number)
			m.Serial, m.Sent = v.serial, q.now.Fast
		}
	}
}

// extended takes a voter's word that it has extended a vote.
func (q *Requester) extended(p *peer, r *request, m *vote.Message) {
	v, x := &r.votes[p.place], r.rareOf(p.place)
	if r.length() == 0 || !v.stands() || v.serial != m.Serial || m.Sent > q.now.Fast {
		return
	}
	x.extending, x.extended = false, true
	p.goes = m.Elected // so one that answers under another version isn't asked again at once
	q.cover(&x.covered, m.Elected, m.Sent.Add(vote.Cover(r.length())))
	switch r.state {
	case stateWon:
		q.reckonGroup(r.group)
	case statePending:
		q.judge(r)
	}
}

// extendNew extends those votes of a set that have never been: they have just come, or never under the newest electorate, though their voters go by it now. All others wait for
// their time; an answer that says that one is extended is no reason to extend it again.
func (q *Requester) extendNew(r *request, set Set) {
	var fresh Set
	for i := range r.votes {
		x := &r.rare.votes[i]
		if v := &r.votes[i]; set.Has(i) && v.stands() && (!x.extended || x.covered.newest == 0 && q.peers[i].goes == q.newest.version) {
			fresh = fresh.With(i)
		}
	}
	if fresh != 0 {
		q.extend(r, fresh)
	}
}

// old returns the voters whose votes were extended so long ago that a lease which isn't renewed would miss it.
func (q *Requester) old(r *request) (s Set) {
	for i := range r.votes {
		if v := &r.votes[i]; v.stands() && r.rare.votes[i].covered.newest.Add(vote.Guard(r.length())) < q.now.Fast.Add(vote.Cover(r.length())) {
			s = s.With(i)
		}
	}
	return s
}

// extendEvery is how long after one extension the next is sent: as sessions are refreshed, but never without a pause.
func extendEvery(r *request) time.Duration {
	return max(r.length()/vote.RefreshesPerTTL, time.Millisecond)
}

// keepUp has the votes of a request extended from time to time.
func (q *Requester) keepUp(r *request) {
	if r.rare.extendAt == 0 {
		r.rare.extendAt = q.now.Fast.Add(extendEvery(r))
		q.extendsNext.come(r.rare.extendAt)
		q.lengths = append(q.lengths, r)
	}
}

// letGo ends that.
func (q *Requester) letGo(r *request) {
	if r.rare != nil && r.rare.extendAt != 0 {
		q.extendsNext.gone(r.rare.extendAt)
		r.rare.extendAt = 0
		q.lengths = slices.DeleteFunc(q.lengths, func(o *request) bool { return o == r })
	}
}

// extendDue extends the votes whose time has come.
func (q *Requester) extendDue() {
	if q.now.Fast < q.extendsNext.at {
		return
	}
	for _, r := range q.lengths {
		if r.rare.extendAt > q.now.Fast {
			continue
		}
		r.rare.extendAt = q.now.Fast.Add(extendEvery(r))
		for i := range r.rare.votes {
			r.rare.votes[i].extending = false // an answer that hasn't come by now may be lost with its stream
		}
		q.extend(r, ^Set(0))
	}
	q.extendsNext.stale = true
	q.firstExtension()
}

// firstExtension returns when the first votes are to be extended.
func (q *Requester) firstExtension() vote.Instant {
	if e := &q.extendsNext; e.stale {
		*e = earliest{at: vote.Never}
		for _, r := range q.lengths {
			e.come(r.rare.extendAt)
		}
	}
	return q.extendsNext.at
}

// lapsed takes a voter's word that a vote has outlasted its request's length.
func (q *Requester) lapsed(p *peer, r *request, m *vote.Message) {
	p.book.hear(p.heard, vote.Ledger{}.Minus(vote.OfVote(m.Serial)))
	v, x := &r.votes[p.place], r.rareOf(p.place)
	// Its word may cross ours that gives the vote back, which we thought would take it out of the voter's ledger.
	switch {
	case x != nil && x.yielded == m.Serial && x.yieldStream == p.stream:
		p.book.amend(x.yieldAt, vote.OfVote(m.Serial))
	case x != nil && r.state == stateEnding && x.relStream == p.stream && x.relSerial == m.Serial:
		p.book.amend(x.relAt, vote.OfVote(m.Serial))
	case v.serial == m.Serial:
		r.drop(p.place)
		if r.state == stateWon && !r.fixed() {
			q.report(p, r) // it goes on, and wants the vote again
		}
		q.judge(r)
	}
}
