package quorum

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// group is the leases behind which one set of voters stands. They all end at one instant.
type group struct {
	id      GroupID
	set     Set
	until   vote.Instant // the guard before the set's cover ends
	members map[vote.Number]*request
}

// deadline returns until when a lease may be used behind which the voters of s stand: the latest instant at which a majority of
// them is still covered, less the guard that lets the holder hear of it in time.
func (q *Requester) deadline(s Set) vote.Instant {
	until := q.cfg.Electorate.Until(s, func(i int) vote.Instant { return q.peers[i].covered })
	return until.Add(-vote.Guard(q.cfg.TTL))
}

// regroup moves a lease to the group of those voters that have voted for it, under its token.
func (q *Requester) regroup(r *request) {
	s := r.ballot.confirmed(r.token)
	if r.group != nil && r.group.set == s {
		return
	}
	held := r.group != nil
	q.ungroup(r)
	i, ok := slices.BinarySearchFunc(q.groups, s, func(g *group, s Set) int {
		switch {
		case g.set < s:
			return -1
		case g.set > s:
			return 1
		}
		return 0
	})
	if !ok {
		g := &group{id: GroupID(s), set: s, until: q.deadline(s), members: make(map[vote.Number]*request)}
		q.groups = slices.Insert(q.groups, i, g)
		q.tell(Event{Kind: EventCover, Group: g.id, Until: g.until})
	}
	r.group = q.groups[i]
	r.group.members[r.number] = r
	if held {
		q.tell(Event{Kind: EventMoved, Number: r.number, Group: r.group.id})
	}
}

func (q *Requester) ungroup(r *request) {
	g := r.group
	if g == nil {
		return
	}
	r.group = nil
	delete(g.members, r.number)
	if len(g.members) == 0 {
		q.groups = slices.DeleteFunc(q.groups, func(h *group) bool { return h == g })
	}
}

// reckon works out anew until when each group is covered, and grants what waited for cover.
func (q *Requester) reckon() {
	for _, g := range q.groups {
		if until := q.deadline(g.set); until != g.until {
			g.until = until
			q.tell(Event{Kind: EventCover, Group: g.id, Until: until})
		}
	}
	q.expire()
	waiting := q.uncovered
	q.uncovered = nil
	for _, r := range waiting {
		r.waiting = false
		if r.state == statePending {
			q.judge(r)
		}
	}
}

// expire ends the leases whose instant has come. Lost is lost, whatever arrives later.
func (q *Requester) expire() {
	for i := 0; i < len(q.groups); i++ {
		g := q.groups[i]
		if q.now.Fast < g.until {
			continue
		}
		lost := make([]vote.Number, 0, len(g.members))
		for n := range g.members {
			lost = append(lost, n)
		}
		slices.Sort(lost)
		for _, n := range lost {
			r := q.requests[n]
			q.count.Losses++
			q.tell(Event{Kind: EventLost, Number: n})
			q.end(r)
		}
		i = -1 // the groups have changed
	}
}
