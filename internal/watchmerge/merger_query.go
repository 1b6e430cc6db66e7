package watchmerge

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// The place of a majority's view, which belongs to no single voter.
const noVoter = -1

// AddKeyResult takes in the view that a query for a key in doubt returned; nil if the query failed.
func (m *Merger) AddKeyResult(now vote.Micros, d Doubt, shown *quorum.QueryResult) {
	p := m.keys[d.Key]
	if p == nil {
		return // the state of the key was forgotten
	}
	p.querying = false
	if shown == nil || !m.synced {
		return
	}
	m.now = now
	m.checkKey(p, statesIn(shown), d.began)
	m.addViews(shown)
	m.advance(d.Key, m.keyState(d.Key)) // the key may have been forgotten on the way
	m.reportGap()
}

// compare brings the state of a merger without a gap in line with a view. Reports since the query
// began are newer than the view.
func (m *Merger) compare(shown *quorum.QueryResult) {
	seen := statesIn(shown)
	m.each(func(name vote.Key, p *keyState) {
		if !shown.Truncated || name <= shown.Last {
			m.checkKey(p, seen, m.reportsAtQuery)
			m.advance(name, p)
		}
	})
	m.addViews(shown)
	for i := range shown.Views {
		if p := m.keys[shown.Views[i].Key]; p != nil {
			m.advance(shown.Views[i].Key, p)
		}
	}
}

// statesIn maps the requests in a view to their states. The lease of a resting key is over. A lease
// in QueryResult.Superseded is not necessarily over: perhaps no voter that answered has heard yet
// that the lease admits others beside it.
func statesIn(shown *quorum.QueryResult) map[requestRef]vote.State {
	seen := make(map[requestRef]vote.State, len(shown.Views))
	for i := range shown.Superseded {
		seen[refOf(&shown.Superseded[i])] = vote.Promised
	}
	for i := range shown.Views {
		if s := &shown.Views[i]; s.State != vote.Delayed {
			seen[refOf(s)] = s.State
		}
	}
	return seen
}

// checkKey compares the state of a key with a view, as far as the state was known when the query
// began. A held lease has votes of a majority, so the view contains at least one of its votes: the
// request appears as held, or as promised or waiting where the voter has yet to hear of the grant.
func (m *Merger) checkKey(p *keyState, seen map[requestRef]vote.State, began uint64) {
	for _, c := range slices.Concat(p.held, p.pending) {
		what, ok := seen[refOf(&c.view)]
		c.shownHeld = c.shownHeld || what == vote.Holding
		switch {
		case c.lastReport > began:
		case !ok:
			c.hits = 0
			if c.misses++; c.misses >= queriesToSettle {
				c.sure = true // some voter has reported the request as a lease
				if c.end == 0 {
					c.end = Lost
				}
			}
		case what == vote.Holding:
			c.misses = 0
			if c.hits++; c.hits >= queriesToSettle {
				c.sure, c.endedBy = true, 0
			}
		default:
			c.hits, c.misses = 0, 0
		}
	}
	for id := range p.waiting {
		if _, ok := seen[id]; !ok {
			delete(p.waiting, id)
		}
	}
}

// addViews takes in what is new in a view, and which voters have reported each lease as held.
func (m *Merger) addViews(shown *quorum.QueryResult) {
	for i := range shown.Views {
		s := &shown.Views[i]
		if m.tombstones.has(refOf(s)) {
			continue
		}
		switch {
		case s.State == vote.Waiting && !s.Try:
			m.addWaiting(noVoter, m.keys[s.Key], s)
			continue
		case s.State != vote.Holding:
			continue
		}
		p := m.keyState(s.Key)
		c := p.find(refOf(s))
		if c == nil {
			if c = m.newLease(p, s); c == nil {
				continue
			}
			c.hits, c.shownHeld = 1, true
		}
		if i < len(shown.HeldBy) {
			c.reportedBy |= shown.HeldBy[i]
		}
		m.update(p, c, s)
	}
}

// rebase makes a view the basis of a merger that starts or recovers from a gap. Intermediate
// changes are not reported.
func (m *Merger) rebase(shown *quorum.QueryResult) {
	seen := statesIn(shown)
	m.each(func(name vote.Key, p *keyState) {
		if shown.Truncated && name > shown.Last {
			return
		}
		for _, c := range slices.Concat(p.held, p.pending) {
			if _, ok := seen[refOf(&c.view)]; !ok && c.lastReport <= m.reportsAtQuery {
				m.drop(name, p, c)
			}
		}
		for id := range p.waiting {
			if _, ok := seen[id]; !ok {
				delete(p.waiting, id)
			}
		}
		m.forget(name, p)
	})
	m.addViews(shown)
	for i := range shown.Views {
		s := &shown.Views[i]
		p := m.keys[s.Key]
		if p == nil || s.State != vote.Holding {
			continue
		}
		c := p.find(refOf(s))
		if c == nil || slices.Contains(p.held, c) {
			continue
		}
		// Of two conflicting leases the lease with the smaller token is over: a report has arrived
		// since the query began.
		over := func(h *leaseState) bool { return c.conflicts(h) && h.view.Token < c.view.Token }
		for _, h := range slices.Clone(p.held) {
			if over(h) {
				m.drop(s.Key, p, h)
			}
		}
		if slices.ContainsFunc(p.held, c.conflicts) {
			m.drop(s.Key, p, c)
			continue
		}
		c.sure = true
		m.grant(s.Key, p, c)
	}
	m.each(func(name vote.Key, p *keyState) {
		for _, c := range slices.Clone(p.pending) {
			if p.late(&c.view) {
				m.drop(name, p, c)
			}
		}
	})
}

// drop forgets a lease without reporting an event.
func (m *Merger) drop(name vote.Key, p *keyState, c *leaseState) {
	p.held, p.pending = without(p.held, c), without(p.pending, c)
	m.addTombstone(name, p, refOf(&c.view))
}
