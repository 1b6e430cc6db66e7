package quorum

import "fmt"

// Audit checks two rules. Only leases are in a lease group. And a request that has been sent to a
// voter, and isn't deferred, has been sent to each voter that answers this node, or is on its way
// to this voter in a sync: sendDeferred relies on this rule. Audit reads every request; only tests
// call Audit, after each step.
func (l *requestLayer) Audit() error {
	for r := l.ordered.first; r != nil; r = r.next {
		if r.group != nil && r.state != stateWon {
			return fmt.Errorf("request %d has a lease group, and isn't a lease", r.number)
		}
		if r.hedging || r.sentAt == 0 || r.state == stateEnding {
			continue
		}
		for _, p := range l.peers {
			if p.syncBuilder != nil && !p.syncBuilder.listed(r) { // the sync will list the request
				continue
			}
			v := &r.votes[p.place]
			asked := v.sent || v.busy || v.unfit != 0
			if p.reachable() && l.newest.all.Has(p.place) && !asked {
				return fmt.Errorf("request %d isn't deferred, and %s was never asked for key %q",
					r.number, p.name, r.key)
			}
		}
	}
	return nil
}
