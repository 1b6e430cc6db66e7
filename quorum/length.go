package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// A lease may have a length of its own, shorter or longer than its node's session. Then time lives in its votes: each is extended by itself, and
// covers the lease by itself. They cost a message for each lease and voter, so this is for the few; all others live by their session.

// extend asks the voters of a set to have their votes for a request last for its length from now.
func (q *Requester) extend(r *request, set Set) {
	for _, p := range q.peers {
		v := &r.votes[p.place]
		if set.Has(p.place) && v.stands() && !v.extending && p.up() && p.answered {
			v.extending = true
			q.say(p, vote.Ledger{}, vote.Message{Kind: vote.KindExtend, Number: r.number, Serial: v.serial, Sent: q.now.Fast})
		}
	}
}

// lasting returns the voters whose votes for a request last for now. They aren't asked to extend them while others are: this node's own voter would
// answer, and be asked again, for ever.
func (q *Requester) lasting(r *request) Set {
	var s Set
	for i := range r.votes {
		if r.votes[i].covered.Add(-vote.Guard(r.Length)) > q.now.Fast {
			s = s.With(i)
		}
	}
	return s
}

// extended takes a voter's word that it has extended a vote.
func (q *Requester) extended(p *peer, r *request, m *vote.Message) {
	v := &r.votes[p.place]
	if r.Length == 0 || !v.stands() || v.serial != m.Serial || m.Sent > q.now.Fast {
		return
	}
	v.extending = false
	v.covered = max(v.covered, m.Sent.Add(vote.Cover(r.Length)))
	switch r.state {
	case stateWon:
		q.reckonGroup(r.group)
	case statePending:
		q.judge(r)
	}
}

// extendNew extends the votes of a lease that have never been: they came after it was won.
func (q *Requester) extendNew(r *request) {
	if r.Length == 0 || r.Fixed {
		return
	}
	var fresh Set
	for i := range r.votes {
		if v := &r.votes[i]; v.stands() && v.covered == 0 {
			fresh = fresh.With(i)
		}
	}
	if fresh != 0 {
		q.extend(r, fresh)
	}
}

// extendDue extends the leases that have a length of their own as often as sessions are refreshed.
func (q *Requester) extendDue() {
	for _, r := range q.lengths {
		if r.extendAt > q.now.Fast {
			continue
		}
		r.extendAt = q.now.Fast.Add(r.Length / vote.RefreshesPerTTL)
		for i := range r.votes {
			r.votes[i].extending = false // an answer that hasn't come by now may be lost with its stream
		}
		q.extend(r, q.cfg.Electorate.All())
	}
}

// lapsed takes a voter's word that a vote has outlasted its request's length.
func (q *Requester) lapsed(p *peer, r *request, m *vote.Message) {
	p.book.hear(p.heard, vote.Ledger{}.Minus(vote.OfVote(m.Serial)))
	v := &r.votes[p.place]
	if r.state == stateEnding {
		if v.relStream == p.stream && v.relSerial == m.Serial { // it crossed our release, which we thought would take it back
			p.book.amend(v.relAt, vote.OfVote(m.Serial))
		}
		return
	}
	if v.serial == m.Serial {
		v.drop()
		q.judge(r)
	}
}
