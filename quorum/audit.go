package quorum

import "fmt"

// Audit holds the account of which voter has which request against the rule that sendDeferred
// relies on, by looking at all requests: a request that isn't deferred, once sent to one voter, was
// sent to each voter of its key's committee that answers this node, or is on its way there in a
// sync. Tests call Audit after each step; nothing else does, since it looks at every request.
func (q *Requester) Audit() error {
	for r := q.roll.first; r != nil; r = r.next {
		if r.hedging || r.sentAt == 0 || r.state == stateEnding {
			continue
		}
		for _, p := range q.peers {
			if p.making != nil && !p.making.listed(r) { // the sync will list the request
				continue
			}
			v := &r.votes[p.place]
			asked := v.sent || v.busy || v.unfit != 0
			if p.reachable() && q.newest.Committee(r.key).Has(p.place) && !asked {
				return fmt.Errorf("request %d isn't deferred, and %s was never asked for key %q",
					r.number, p.name, r.key)
			}
		}
	}
	return nil
}
