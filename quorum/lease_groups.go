package quorum

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// leaseGroups has the lease groups of all leases, and what depends on their validity: when the
// first group ends, the requests that wait for another look at the validity, and how many leases
// last longer due to an answer. Each group has a member, and no two groups are equal by compare
// except after a change of the electorate.
type leaseGroups struct {
	groups    []*group // in order of their sets and earliest ends
	lastGroup GroupID
	endsNext  earliest // of the groups
	// Requests with votes in agreement, until their sessions are refreshed.
	awaitingValidity []vote.Number
	lengths          lengthList // leases with a length of their own
	renewals         renewals
	freeGroups       pool[group]
}

// group returns the group of a set of voters and an earliest end, and makes the group if missing.
// own is the only member of a group for a lease with a length of its own, else nil.
func (l *leaseGroups) group(s Set, minUntil vote.Instant, own *request) (g *group, isNew bool) {
	i, ok := slices.BinarySearchFunc(l.groups, s, func(g *group, s Set) int { return g.compare(s, minUntil, own.numberOrZero()) })
	if ok {
		return l.groups[i], false
	}
	l.lastGroup++
	if g = l.freeGroups.take(); g == nil {
		g = &group{}
	}
	g.id, g.set, g.minUntil, g.own = l.lastGroup, s, minUntil, own
	l.groups = slices.Insert(l.groups, i, g)
	return g, true
}

// ungroup takes a request out of its group, if any. A group without members is over.
func (l *leaseGroups) ungroup(r *request) {
	g := r.group
	if g == nil {
		return
	}
	remove(&g.members, r)
	r.group = nil
	if len(g.members) > 0 {
		return
	}
	l.endsNext.remove(g.until)
	i := l.placeOf(g)
	l.groups = slices.Delete(l.groups, i, i+1)
	*g = group{members: g.members}
	if cap(g.members) <= roomyList {
		l.freeGroups.give(g)
	}
}

// placeOf returns the index of a group. The groups are in order.
func (l *leaseGroups) placeOf(g *group) int {
	i, _ := slices.BinarySearchFunc(l.groups, g, func(o, g *group) int { return o.compare(g.set, g.minUntil, g.ownNumber()) })
	for l.groups[i] != g { // groups that a change of the electorate has made equal
		i++
	}
	return i
}

// firstEnd returns the earliest end of a group's validity.
func (l *leaseGroups) firstEnd() vote.Instant {
	if e := &l.endsNext; e.stale {
		*e = earliest{at: vote.Never}
		for _, g := range l.groups {
			e.add(g.until)
		}
	}
	return l.endsNext.at
}

// held returns the numbers of all leases.
func (l *leaseGroups) held() (numbers []vote.Number) {
	for _, g := range l.groups {
		for _, r := range g.members {
			numbers = append(numbers, r.number)
		}
	}
	return numbers
}

// awaitValidity schedules another evaluation of a request whenever the validity of the sessions is
// recomputed.
func (l *leaseGroups) awaitValidity(r *request) {
	if !r.awaitingValidity {
		r.awaitingValidity = true
		l.awaitingValidity = append(l.awaitingValidity, r.number)
	}
}

// takeAwaiting returns the requests that wait for another evaluation, and forgets them.
func (l *leaseGroups) takeAwaiting() []vote.Number {
	waiting := l.awaitingValidity
	l.awaitingValidity = nil
	return waiting
}

// keepValidity makes the leases supported by the voter at a place keep the validity that they have,
// whatever the voter's validity is from now on.
func (l *leaseGroups) keepValidity(place int) {
	for _, g := range l.groups {
		if g.own == nil && g.set.Has(place) {
			g.minUntil = max(g.minUntil, g.until)
		}
	}
	l.sortGroups()
}

// moveGroups moves the voters of all groups to new places.
func (l *leaseGroups) moveGroups(to []int) {
	for _, g := range l.groups {
		// The promised validity holds, whichever voters support the group from now on.
		g.set, g.minUntil = g.set.Moved(to), max(g.minUntil, g.until)
	}
	l.sortGroups()
}

// sortGroups puts the groups in order.
func (l *leaseGroups) sortGroups() {
	slices.SortStableFunc(l.groups, func(g, h *group) int { return g.compare(h.set, h.minUntil, h.ownNumber()) })
}
