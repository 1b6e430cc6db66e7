package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// askAgain puts requests anew to the voters that turned them down, once in a while: they may have room by now, and nothing else would say so.
func (q *Requester) askAgain() {
	if !q.turned {
		return // a refresh costs the same however many requests there are
	}
	q.turned = false
	for _, r := range q.sorted(func(r *request) bool { return r.state != stateEnding }) {
		for _, p := range q.peers {
			v := &r.votes[p.place]
			if !v.busy && v.unfit == 0 {
				continue
			}
			if !p.up() || !p.answered {
				continue // the next statement says it
			}
			v.busy, v.unfit, v.released = false, 0, false
			q.askFor(p, r)
			if r.state == stateWon {
				q.report(p, r)
			}
		}
	}
}

// askFor puts a request to one voter.
func (q *Requester) askFor(p *peer, r *request) {
	r.votes[p.place].asked = true
	m := q.say(p, vote.OfRequest(r.number), vote.KindRequest, r.number)
	m.Wish, m.Time, m.Bid = r.wish(), r.time, r.bid
	q.sayExtras(p, r)
}
