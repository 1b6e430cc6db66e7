package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// sayExtras tells a voter what a request has besides its wish: a value, and that the holder is to be asked for the key. It comes after
// the request or after the answer to the statement that has it.
func (q *Requester) sayExtras(p *peer, r *request) {
	x := r.rare
	if x == nil {
		return
	}
	if x.version > x.votes[p.place].noted {
		m := q.say(p, vote.Ledger{}, vote.KindSet, r.number)
		m.Version, m.Value = x.version, x.ask.Value
	}
	if x.ask.Urge && r.state == statePending {
		q.say(p, vote.Ledger{}, vote.KindUrge, r.number).Text = x.ask.Why
	}
}

// Set gives a request or lease a value for others to see. It returns the value's version; EventNoted tells when a majority has it. Zero
// means that there is no such request any more.
func (q *Requester) Set(now vote.Now, n vote.Number, value []byte) uint64 {
	q.begin(now)
	r := q.find(n)
	if r == nil || r.state == stateEnding {
		return 0
	}
	return q.setValue(r, value)
}

func (q *Requester) setValue(r *request, value []byte) uint64 {
	x := q.rareOf(r)
	x.ask.Value = value
	x.version++
	for _, p := range q.peers {
		if p.up() && p.answered && r.votes[p.place].asked {
			q.sayExtras(p, r)
		}
	}
	return x.version
}

// noted takes a voter's word that it has a value.
func (q *Requester) noted(p *peer, r *request, m *vote.Message) {
	if r.rare != nil {
		x := &r.rare.votes[p.place]
		x.noted = max(x.noted, min(m.Version, r.rare.version))
		q.settleNoted(r)
	}
}

// settleNoted tells of a value once a majority has it.
func (q *Requester) settleNoted(r *request) {
	x := r.rare
	if x == nil || r.state == stateEnding || x.heard >= x.version {
		return
	}
	var all Set
	for i := range x.votes {
		if x.votes[i].noted == x.version {
			all = all.With(i)
		}
	}
	if q.newest.Decides(all) {
		x.heard = x.version
		q.tell(EventNoted, r.user).Version = x.version
	}
}

// wanted takes a voter's word that somebody waits for a lease's key.
func (q *Requester) wanted(p *peer, r *request, m *vote.Message) {
	if r.state != stateWon {
		return
	}
	if m.Urge {
		x, v := q.rareOf(r), q.rareVote(r, p.place)
		v.urges++
		if v.urges <= x.urges {
			return // another voter has told of it
		}
		x.urges = v.urges
	} else if r.wanted {
		return
	}
	r.wanted = true
	e := q.tell(EventWanted, r.user)
	e.Who, e.Text, e.Urge = m.Who, m.Text, m.Urge
}

// Share turns an exclusive lease into a shared one, at once: others may come in beside it as soon as voters have heard. It reports
// whether there was such a lease.
func (q *Requester) Share(now vote.Now, n vote.Number) bool {
	q.begin(now)
	r := q.find(n)
	if r == nil || r.state != stateWon || r.mode != vote.Exclusive {
		return false
	}
	q.leaveLine(r) // whoever waits behind it must be known to the voters, or readers might pass it for ever
	r.mode = vote.Shared
	if r.rare != nil {
		r.rare.ask.Beside = 0
	}
	for _, p := range q.peers {
		if p.up() && r.votes[p.place].asked {
			q.say(p, vote.Ledger{}, vote.KindShare, r.number)
		}
	}
	return true
}
