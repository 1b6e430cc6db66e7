package electorate

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// tie records how a voter, or a node that could vote, is reached. A node with a new directory gets
// a new tie: facts about a lost directory say nothing about the next directory.
type tie struct {
	// last is when the node was last heard of with this directory: directly, or as alive in gossip.
	// If the node was never heard of, last is when this incarnation began or the electorate was
	// learned.
	last vote.Instant
	// replaced: the node has reported directly, later, another directory. Gossip may be late, so
	// gossip doesn't bring this directory back.
	replaced bool
	// met is since when a majority of the voters has reported direct contact with the node, and cut
	// since when a majority has reported no direct contact; each is zero while the condition
	// doesn't hold.
	met, cut vote.Instant
	// away is how much longer the condition of cut than the condition of met held before; at most
	// [FailAfter]. A node that is reached for a moment now and then isn't back.
	away time.Duration
}

// absence returns for how long a majority of the voters has had no direct contact with a node, less
// the contact in between; zero if there is contact now.
func (t *tie) absence(now vote.Instant) time.Duration {
	if t.cut == 0 {
		return 0
	}
	return t.away + now.Sub(t.cut)
}

// contacts returns the voters, and the nodes that could vote, in direct contact with this node;
// itself first.
func (m *contactLayer) contacts() []vote.Elector {
	all := []vote.Elector{m.Elector()}
	e := &m.state.Electorate
	var could []vote.Elector
	for _, o := range m.sorted() {
		v := vote.Elector{Name: o.name, Dir: o.report.dir}
		switch {
		case v.Dir == 0 || !m.recent(o):
		case e.Has(v):
			all = append(all, v)
		case o.seen == vote.Alive && o.dir == v.Dir:
			could = append(could, v)
		}
	}
	could = could[:min(len(could), max(vote.MaxVoters-len(all), 0))]
	return append(all, could...)[:min(len(all)+len(could), vote.MaxVoters)]
}

// tieAll makes a tie for each voter, and deletes the ties that are no longer needed.
func (m *contactLayer) tieAll() {
	e := &m.state.Electorate
	for v := range m.ties {
		if o := m.others[v.Name]; !e.Has(v) && (o == nil || o.dir != v.Dir) {
			delete(m.ties, v)
		}
	}
	for _, v := range e.All() {
		m.tie(v)
	}
}

func (m *contactLayer) tie(v vote.Elector) *tie {
	t := m.ties[v]
	if t == nil {
		t = &tie{last: m.now.Slow}
		m.ties[v] = t
	}
	return t
}

// noteReachable notes that a node is reachable, with this directory.
func (m *contactLayer) noteReachable(v vote.Elector, direct bool) {
	if direct {
		for _, half := range [...][]vote.Elector{m.state.Electorate.Voters, m.state.Electorate.Old} {
			for _, w := range half {
				if w.Name == v.Name {
					m.tie(w).replaced = w.Dir != v.Dir
				}
			}
		}
	}
	if t := m.ties[v]; t != nil && !t.replaced {
		t.last = m.now.Slow
	}
}

// compareContacts finds the nodes with which a majority of the voters has direct contact. Gossip
// only nominates: a node reached by gossip messages, but not by a connection, can't vote; and a
// node unknown to gossip can vote, if the voters reach the node.
func (m *contactLayer) compareContacts() {
	e := &m.state.Electorate
	for _, v := range e.Voters {
		if v != m.Elector() {
			m.compareContact(v)
		}
	}
	for _, o := range m.sorted() {
		if v := (vote.Elector{Name: o.name, Dir: o.dir}); o.seen == vote.Alive && o.dir != 0 && !e.Has(v) {
			m.compareContact(v)
		}
	}
}

func (m *contactLayer) compareContact(v vote.Elector) {
	t := m.tie(v)
	voters := m.state.Electorate.Voters
	// hold returns for how long a condition has held that holds no more.
	hold := func(since *vote.Instant, holds bool) (held time.Duration) {
		switch {
		case !holds && *since != 0:
			held, *since = m.now.Slow.Sub(*since), 0
		case holds && *since == 0:
			*since = m.now.Slow
		}
		return held
	}
	contact := hold(&t.met, majority(voters, func(w vote.Elector) bool { return m.contact(w, v) == met }))
	t.away = max(t.away-contact, 0)
	absence := hold(&t.cut, majority(voters, func(w vote.Elector) bool { return m.contact(w, v) == cut }))
	t.away = min(t.away+absence, FailAfter(m.maxTTL()))
}

// contact is a voter's report on its direct contact with a node.
type contact uint8

const (
	unreported contact = iota // the voter hasn't reported recently
	met
	cut
)

func (m *contactLayer) contact(w, v vote.Elector) contact {
	var there bool
	if w == m.Elector() {
		o := m.others[v.Name]
		there = o != nil && m.recent(o) && o.report.dir == v.Dir
	} else {
		o := m.others[w.Name]
		if w == v || o == nil || !m.recent(o) || o.report.dir != w.Dir || len(o.report.contacts) == 0 {
			return unreported // no voter's report about itself counts
		}
		there = slices.Contains(o.report.contacts, v)
	}
	if there {
		return met
	}
	return cut
}

// isMet reports whether a majority of the voters has had direct contact with a node for long enough
// to vote the node in.
func (m *contactLayer) isMet(v vote.Elector) bool {
	t := m.ties[v]
	return t != nil && t.met != 0 && m.now.Slow.Sub(t.met) >= SettleAfter(m.maxTTL())
}
