package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// sayExtras tells a voter what a request has besides its wish: a value, and that the holder is to be asked for the key. It comes after
// the request or after the answer to the statement that has it.
func (q *Requester) sayExtras(p *peer, r *request) {
	if v := &r.votes[p.place]; r.version > v.noted {
		q.say(p, vote.Ledger{}, vote.Message{Kind: vote.KindSet, Number: r.number, Version: r.version, Value: r.Value})
	}
	if r.Urge && r.state == statePending {
		q.say(p, vote.Ledger{}, vote.Message{Kind: vote.KindUrge, Number: r.number, Text: r.Why})
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
	r.Value = value
	r.version++
	for _, p := range q.peers {
		if p.up() && p.answered && r.votes[p.place].asked {
			q.sayExtras(p, r)
		}
	}
	return r.version
}

// noted takes a voter's word that it has a value.
func (q *Requester) noted(p *peer, r *request, m *vote.Message) {
	v := &r.votes[p.place]
	v.noted = max(v.noted, min(m.Version, r.version))
	q.settleNoted(r)
}

// settleNoted tells of a value once a majority has it.
func (q *Requester) settleNoted(r *request) {
	var all Set
	for i := range r.votes {
		if r.votes[i].noted == r.version {
			all = all.With(i)
		}
	}
	if r.state != stateEnding && r.heard < r.version && q.newest.Decides(all) {
		r.heard = r.version
		q.tell(Event{Kind: EventNoted, Number: r.user, Version: r.version})
	}
}

// wanted takes a voter's word that somebody waits for a lease's key.
func (q *Requester) wanted(p *peer, r *request, m *vote.Message) {
	if r.state != stateWon {
		return
	}
	v := &r.votes[p.place]
	if m.Urge {
		v.urges++
		if v.urges <= r.urges {
			return // another voter has told of it
		}
		r.urges = v.urges
	} else if r.wanted {
		return
	}
	r.wanted = true
	q.tell(Event{Kind: EventWanted, Number: r.user, Who: m.Who, Text: m.Text, Urge: m.Urge})
}

// Share turns an exclusive lease into a shared one, at once: others may come in beside it as soon as voters have heard. It reports
// whether there was such a lease.
func (q *Requester) Share(now vote.Now, n vote.Number) bool {
	q.begin(now)
	r := q.find(n)
	if r == nil || r.state != stateWon || r.Mode != vote.Exclusive {
		return false
	}
	q.leaveLine(r) // whoever waits behind it must be known to the voters, or readers might pass it for ever
	r.Mode, r.Beside = vote.Shared, 0
	for _, p := range q.peers {
		if p.up() && r.votes[p.place].asked {
			q.say(p, vote.Ledger{}, vote.Message{Kind: vote.KindShare, Number: r.number})
		}
	}
	return true
}
