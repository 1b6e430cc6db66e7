package electorate

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Tick lets time pass.
func (m *Machine) Tick(now vote.Now) {
	m.begin(now)
	m.move()
	m.finish()
}

// Next returns the instant of the slow clock at which Tick has something to do.
func (m *Machine) Next() vote.Instant {
	next := vote.Never
	if m.member() || m.state.Electorate.Version == 0 {
		next = m.pollAt
	}
	if m.race != nil {
		next = min(next, m.race.until)
	}
	if end := m.drain.since.Add(Drain(m.cfg.MaxTTL)); m.drain.begun && end > m.now.Slow {
		next = min(next, end)
	}
	if m.pending && !m.savingNow {
		next = min(next, m.retryAt)
	}
	return next
}

// wantedMost bounds how many nodes that don't vote are kept in touch with: some standbys, or some that may know of an electorate.
const wantedMost = 16

// Wanted returns the nodes to which this one wants connections, besides the voters, in order: while it knows no electorate the founders and
// whoever is there; as a voter those who stand by; and whoever is there while no majority is, since the electorate may have moved on.
func (m *Machine) Wanted() []vote.NodeID {
	e := &m.state.Electorate
	var names []vote.NodeID
	if e.Version == 0 {
		names = append(names, m.cfg.Founders...)
	}
	touch := func(v vote.Elector) bool {
		o := m.others[v.Name]
		return v == m.Elector() || o != nil && o.up
	}
	lonely := !decides(e, touch)
	all := e.All()
	votes := func(n vote.NodeID) bool {
		return slices.ContainsFunc(all, func(v vote.Elector) bool { return v.Name == n })
	}
	most := wantedMost
	for _, o := range m.sorted() {
		if o.seen != Alive || !lonely && (!m.member() || o.dir == 0) {
			continue
		}
		if votes(o.name) { // however many they are, there is room for those who stand by
			names = append(names, o.name)
		} else if most > 0 {
			names = append(names, o.name)
			most--
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n vote.NodeID) bool { return n == m.cfg.Self.Node })
}

// Votes reports whether this node still is a voter.
func (m *Machine) Votes() bool { return m.state.Electorate.Has(m.Elector()) }
