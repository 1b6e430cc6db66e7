package quorum

import (
	"cmp"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// group is the leases behind which one set of voters stands. They all end at one instant.
type group struct {
	id      GroupID
	set     Set
	own     *request     // the one lease of a group that has a length of its own; nil for the others
	floor   vote.Instant // what its leases were covered until before a voter lost their votes; zero if none did
	until   vote.Instant // the later of the floor and of the guard before the set's cover ends
	members []*request   // in any order
}

// deadline returns until when a lease may be used behind which the voters of s stand: the latest instant at which a majority of
// them is still covered, less the guard that lets the holder hear of it in time. The votes of the request (nil: of most) may have a time of their own.
func (q *Requester) deadline(r *request, s Set) vote.Instant { return q.deadlines(r, s).last() }

// deadlines are that instant under each of the electorates.
func (q *Requester) deadlines(r *request, s Set) cover {
	if r == nil || r.length() == 0 {
		return q.until(s, nil).add(-vote.Guard(q.cfg.TTL))
	}
	return q.until(s, r).add(-vote.Guard(r.length()))
}

// ends returns until when a group's leases may be used.
func (q *Requester) ends(g *group) vote.Instant {
	return max(q.deadline(g.own, g.set), g.floor)
}

// regroup moves a lease to the group of those voters that have voted for it, under its token.
//
// A voter that has restarted has lost the vote, but its earlier life's promise stands all the same: its new life is quiet for longer.
// So the lease keeps the instant that it had, and whoever still votes for it has until then to be joined by others.
func (q *Requester) regroup(r *request) {
	s := r.ballot.confirmed(r.token, r.slot)
	var floor vote.Instant
	held := r.group != nil
	if held {
		if r.group.set == s {
			return
		}
		if r.group.until > q.deadline(r, s) {
			floor = r.group.until
		}
	}
	q.ungroup(r)
	r.group = q.groupOf(r, s, floor)
	put(&r.group.members, r)
	if held {
		q.tell(EventMoved, r.user).Group = r.group.id
	}
}

// groupOf returns the group of a set and a floor. A new one is told to the shell before any lease of it.
func (q *Requester) groupOf(r *request, s Set, floor vote.Instant) *group {
	var own *request
	if r.length() > 0 {
		own = r
	}
	i, ok := slices.BinarySearchFunc(q.groups, s, func(g *group, s Set) int { return g.compare(s, floor, own.ofOwn()) })
	if !ok {
		q.lastGroup++
		g := q.free.groups.take()
		if g == nil {
			g = &group{}
		}
		g.id, g.set, g.floor, g.own = q.lastGroup, s, floor, own
		g.until = q.ends(g)
		q.groups = slices.Insert(q.groups, i, g)
		q.tellCover(g)
	}
	return q.groups[i]
}

// compare orders groups.
func (g *group) compare(s Set, floor vote.Instant, own vote.Number) int {
	return cmp.Or(cmp.Compare(g.set, s), cmp.Compare(g.floor, floor), cmp.Compare(g.of(), own))
}

// of returns the number of the one lease that the group is for; zero when it is for all that the same voters stand behind.
func (g *group) of() vote.Number { return g.own.ofOwn() }

func (r *request) ofOwn() vote.Number {
	if r == nil {
		return 0
	}
	return r.number
}

func (q *Requester) ungroup(r *request) {
	g := r.group
	if g == nil {
		return
	}
	remove(&g.members, r)
	r.group = nil
	if len(g.members) > 0 {
		return
	}
	q.endsNext.gone(g.until)
	i := slices.Index(q.groups, g)
	q.groups = slices.Delete(q.groups, i, i+1)
	*g = group{members: g.members}
	if cap(g.members) <= roomyList {
		q.free.groups.give(g)
	}
}

// put adds a request to a list without order, in which it knows its place.
func put(list *[]*request, r *request) {
	r.at = uint32(len(*list))
	*list = append(*list, r)
}

// remove takes it out.
func remove(list *[]*request, r *request) {
	all := *list
	last := all[len(all)-1]
	all[r.at], last.at = last, r.at
	all[len(all)-1] = nil
	all = all[:len(all)-1]
	if cap(all) > roomyMap && len(all) < cap(all)/4 {
		all = append(make([]*request, 0, 2*len(all)), all...) // the crowd is gone
	}
	*list = all
}

// tellCover tells until when a group's leases may be used.
func (q *Requester) tellCover(g *group) {
	q.endsNext.come(g.until)
	e := q.tell(EventCover, 0)
	e.Group, e.Until = g.id, g.until
}

// reckon works out anew until when each group is covered, and grants what waited for cover.
func (q *Requester) reckon() {
	for _, g := range q.groups {
		q.reckonGroup(g)
	}
	q.expire()
	waiting := q.uncovered
	q.uncovered = nil
	for _, n := range waiting {
		r := q.requests[n]
		if r == nil {
			continue
		}
		r.waiting = false
		if r.state == statePending {
			q.judge(r)
		}
	}
}

func (q *Requester) reckonGroup(g *group) {
	if until := q.ends(g); until != g.until {
		q.endsNext.gone(g.until)
		g.until = until
		q.tellCover(g)
	}
}

// expire ends the leases whose instant has come. Lost is lost, whatever arrives later.
func (q *Requester) expire() {
	if q.now.Fast < q.endsNext.at {
		return
	}
	for i := 0; i < len(q.groups); i++ {
		g := q.groups[i]
		if q.now.Fast < g.until {
			continue
		}
		lost := make([]vote.Number, 0, len(g.members))
		for _, r := range g.members {
			lost = append(lost, r.number)
		}
		slices.Sort(lost)
		for _, n := range lost {
			r := q.requests[n]
			q.count.Losses++
			q.tell(EventLost, r.user)
			q.end(r, true)
		}
		i = -1 // the groups have changed
	}
	q.firstEnd()
}

// firstEnd returns when the first group's leases end.
func (q *Requester) firstEnd() vote.Instant {
	if e := &q.endsNext; e.stale {
		*e = earliest{at: vote.Never}
		for _, g := range q.groups {
			e.come(g.until)
		}
	}
	return q.endsNext.at
}

// earliest is the earliest of some instants, so that not all have to be looked at with each message. It may be too early while it is stale.
type earliest struct {
	at    vote.Instant
	stale bool
}

func (e *earliest) come(at vote.Instant) { e.at = min(e.at, at) }

func (e *earliest) gone(at vote.Instant) { e.stale = e.stale || at <= e.at }
