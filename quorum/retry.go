package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// retryRejected repeats, at each refresh, the requests that voters turned down: the voters may have
// room by now, and no message would say so.
func (d deliverer) retryRejected() {
	if !d.rejected {
		return // a refresh costs the same however many requests there are
	}
	d.rejected = false
	d.spend(len(d.requests) / scanned)
	for _, r := range d.sorted(func(r *request) bool { return r.state != stateEnding }) {
		for _, p := range d.peers {
			v := &r.votes[p.place]
			if !v.busy && v.unfit == 0 {
				continue
			}
			if !p.up() || !p.answered {
				continue // the next sync will contain the request
			}
			v.busy, v.unfit, v.released = false, 0, false
			d.sendRequest(p, r)
			if r.state == stateWon {
				d.report(p, r)
			}
		}
	}
}

// sendRequest sends a request to a voter, or lists it in the sync that is being made.
func (d deliverer) sendRequest(p *peer, r *request) {
	r.votes[p.place].sent = true
	d.noteSent(r)
	if d.listAhead(p, r) {
		return
	}
	m := d.sendOrdered(p, vote.DigestOfRequest(r.number), vote.KindRequest, r.number)
	m.Spec, m.Time, m.TokenHint = r.spec(d.now.Fast), r.time, r.tokenHint
	d.sendValueAndRevoke(p, r)
}
