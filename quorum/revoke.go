package quorum

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// revoked handles a voter's declaration that all of its promises are void. Leases without a
// majority among the other voters end at once, whatever their validity was before: it may rest on
// the same promises.
func (q *Requester) revoked(p *peer) {
	p.validity = validity{}
	q.spend(len(q.requests) / scanned)
	for _, r := range q.requests {
		if x := r.coldOf(p.place); x != nil {
			x.validity = validity{}
		}
	}
	var lost []vote.Number
	for _, g := range q.groups {
		if !g.set.Has(p.place) || q.deadline(g.own, g.set) > q.now.Fast {
			continue
		}
		for _, r := range g.members {
			lost = append(lost, r.number)
		}
	}
	q.lose(lost)
	q.updateValidity()
}

// Forfeit ends every lease of this node as lost, since too much is known to be wrong for any lease
// to be trusted. EventLost reports each of them.
func (q *Requester) Forfeit(now vote.Now) {
	q.begin(now)
	q.lose(q.held())
}

// lose ends leases, in order of their numbers.
func (q *Requester) lose(numbers []vote.Number) {
	slices.Sort(numbers)
	for _, n := range numbers {
		r := q.requests[n]
		q.count.Losses++
		q.emit(EventLost, r.caller)
		q.end(r, true)
	}
}
