package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// retryRejected repeats, at each refresh, the requests that voters turned down: the voters may have
// room by now, and no message would say so.
func (q *Requester) retryRejected() {
	if !q.rejected {
		return // a refresh costs the same however many requests there are
	}
	q.rejected = false
	q.spend(len(q.requests) / scanned)
	for _, r := range q.sorted(func(r *request) bool { return r.state != stateEnding }) {
		for _, p := range q.peers {
			v := &r.votes[p.place]
			if !v.busy && v.unfit == 0 {
				continue
			}
			if !p.up() || !p.answered {
				continue // the next sync will contain the request
			}
			v.busy, v.unfit, v.released = false, 0, false
			q.sendRequest(p, r)
			if r.state == stateWon {
				q.report(p, r)
			}
		}
	}
}

// sendRequest sends a request to a voter, or lists it in the sync that is being made.
func (q *Requester) sendRequest(p *peer, r *request) {
	r.votes[p.place].sent = true
	q.noteSent(r)
	if q.listAhead(p, r) {
		return
	}
	m := q.sendOrdered(p, vote.DigestOfRequest(r.number), vote.KindRequest, r.number)
	m.Spec, m.Time, m.TokenHint = r.spec(q.now.Fast), r.time, r.tokenHint
	q.sendValueAndRevoke(p, r)
}
