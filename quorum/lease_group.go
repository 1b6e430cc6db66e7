package quorum

import (
	"cmp"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// group is a lease group: all leases supported by the same set of voters. All leases of a group end
// at the same instant.
type group struct {
	id       GroupID
	set      Set
	own      *request     // the only member, if a lease with a length of its own; else nil
	minUntil vote.Instant // the validity before a voter lost its votes; zero if none did
	until    vote.Instant // the later of minUntil, and the end of the set's validity less the margin
	members  []*request   // in any order
}

// deadline returns the end of the validity of a lease with the votes of s: the latest instant at
// which a majority of s is still valid, less the margin in which the holder learns of the loss.
// The votes of r may have a length of their own; r is nil for most leases.
func (l *requestLayer) deadline(r *request, s Set) vote.Instant { return l.deadlines(r, s).last() }

// deadlines returns the same instant under each of the two electorates.
func (l *requestLayer) deadlines(r *request, s Set) validity {
	if r == nil || r.length() == 0 {
		return l.validUntil(s, nil).add(-vote.Margin(l.ttl()))
	}
	return l.validUntil(s, r).add(-vote.Margin(l.lengthOf(r)))
}

// groupEnd returns the end of the validity of a group's leases.
func (l *requestLayer) groupEnd(g *group) vote.Instant {
	return max(l.deadline(g.own, g.set), g.minUntil)
}

// regroup moves a lease to the group of the voters that have voted for the lease under its token.
//
// A voter that has restarted has lost the vote, but the promise of its earlier incarnation still
// holds: the new incarnation stays quiet for longer. So the lease keeps its end of validity, and
// until then other voters can join the voters that still vote for the lease.
func (l *leaseLayer) regroup(r *request) {
	s := r.tally.confirmed(r.token, r.slot)
	var minUntil vote.Instant
	held := r.group != nil
	if held {
		if r.group.set == s {
			return
		}
		if r.group.until > l.deadline(r, s) {
			minUntil = r.group.until
		}
	}
	l.ungroup(r)
	r.group = l.groupOf(r, s, minUntil)
	put(&r.group.members, r)
	if held {
		l.emit(EventMoved, r.caller).Group = r.group.id
	}
}

// groupOf returns the group of a set of voters and an earliest end. A new group is reported to the
// shell before any of its leases.
func (l *leaseLayer) groupOf(r *request, s Set, minUntil vote.Instant) *group {
	var own *request
	if r.length() > 0 {
		own = r
	}
	g, isNew := l.group(s, minUntil, own)
	if isNew {
		g.until = l.groupEnd(g)
		l.emitValidity(g)
	}
	return g
}

// compare orders groups.
func (g *group) compare(s Set, minUntil vote.Instant, own vote.Number) int {
	return cmp.Or(cmp.Compare(g.set, s), cmp.Compare(g.minUntil, minUntil), cmp.Compare(g.ownNumber(), own))
}

// ownNumber returns the number of the only lease in a group with a length of its own; zero for a
// group of all leases with the same voters.
func (g *group) ownNumber() vote.Number { return g.own.numberOrZero() }

func (r *request) numberOrZero() vote.Number {
	if r == nil {
		return 0
	}
	return r.number
}

// put adds a request to an unordered list, and stores the index in the request.
func put(list *[]*request, r *request) {
	r.at = uint32(len(*list))
	*list = append(*list, r)
}

// remove removes a request from such a list.
func remove(list *[]*request, r *request) {
	all := *list
	last := all[len(all)-1]
	all[r.at], last.at = last, r.at
	all[len(all)-1] = nil
	all = all[:len(all)-1]
	if cap(all) > roomyMap && len(all) < cap(all)/4 {
		all = append(make([]*request, 0, 2*len(all)), all...) // most of the requests are gone
	}
	*list = all
}

// emitValidity reports the validity of a group's leases.
func (l *leaseLayer) emitValidity(g *group) {
	l.endsNext.add(g.until)
	e := l.emit(EventValidity, 0)
	e.Group, e.Until = g.id, g.until
}

// updateValidity recomputes the validity of each group, and grants the requests that waited for
// validity.
func (q *Requester) updateValidity() {
	q.spend(len(q.groups)/scanned + costEvaluated*len(q.awaitingValidity))
	for _, g := range q.groups {
		q.updateGroupValidity(g)
	}
	q.expire()
	for _, n := range q.takeAwaiting() {
		r := q.requests[n]
		if r == nil {
			continue
		}
		r.awaitingValidity = false
		if r.state == statePending {
			q.evaluate(r)
		}
	}
}

func (l *leaseLayer) updateGroupValidity(g *group) {
	if until := l.groupEnd(g); until != g.until {
		l.renewals.add(g, until)
		l.endsNext.remove(g.until)
		g.until = until
		l.emitValidity(g)
	}
}

// expire ends the leases at the end of their validity. A lost lease stays lost, whatever arrives
// later.
func (q *Requester) expire() {
	if q.now.Fast < q.endsNext.at {
		return
	}
	for again := true; again; { // the groups change with each that ends
		again = false
		for i := 0; i < len(q.groups); i++ {
			g := q.groups[i]
			if q.now.Fast < g.until {
				continue
			}
			again = true
			lost := make([]vote.Number, 0, len(g.members))
			for _, r := range g.members {
				lost = append(lost, r.number)
			}
			slices.Sort(lost)
			for _, n := range lost {
				r := q.requests[n]
				q.count.Losses++
				q.emit(EventLost, r.caller)
				q.end(r, true)
			}
			i-- // the next group is in its place
		}
	}
	q.firstEnd()
}
