package electorate

import (
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Tick lets time pass.
func (m *Machine) Tick(now vote.Now) {
	m.begin(now)
	m.watchSave()
	m.move()
	m.finish()
}

// Next returns the instant of the slow clock at which Tick has work to do.
func (m *Machine) Next() vote.Instant {
	next := vote.Never
	if m.polls() {
		next = m.pollAt
	}
	if m.race != nil {
		next = min(next, m.race.until)
	}
	if end := m.drain.since.Add(Drain(m.maxTTL())); m.drain.begun && end > m.now.Slow {
		next = min(next, end)
	}
	if m.savingNow && !m.overdue {
		next = min(next, m.savingFrom.Add(SaveLimit(m.maxTTL())))
	}
	if m.pending && !m.savingNow {
		next = min(next, m.retryAt)
	}
	if m.registers() {
		_, at := m.nextCall()
		next = min(next, at)
		if left := m.register.counts.Sub(m.now.Fast); left > 0 {
			next = min(next, m.now.Slow.Add(left))
		}
	}
	return next
}

// wantedMost bounds the connections to nodes that don't vote: standbys, or possible members of an
// electorate unknown here.
const wantedMost = 16

// AppendWanted appends to dst the nodes to which this node wants connections, besides the voters,
// in no order; a name may occur twice. While this node knows no electorate, these are the founders
// and all nodes alive in gossip; on a voter, and on each process of a mesh whose processes are
// bounded, the standbys; and while no majority is reachable, again all nodes alive in gossip, since
// the electorate may have moved on.
func (m *contactLayer) AppendWanted(dst []vote.NodeID) []vote.NodeID {
	e := &m.state.Electorate
	add := func(n vote.NodeID) {
		if n != m.cfg.Self.Node {
			dst = append(dst, n)
		}
	}
	if e.Version == 0 {
		for _, name := range m.cfg.Founders {
			add(name)
		}
	}
	self := m.Elector()
	lonely := !decides(e, func(v vote.Elector) bool {
		o := m.others[v.Name]
		return v == self || o != nil && o.up
	})
	// Where only so many processes may run at once, each of them has to know which still run.
	others := m.member() || m.isBounded() && m.state.Dir != 0
	most := wantedMost
	idle := wantedMost // of the nodes that can't be voted in, but may know the electorate
	for _, o := range m.sorted() {
		if o.seen != vote.Alive || !lonely && (!others || o.dir == 0) {
			continue
		}
		room := &most
		if m.byCount() && (o.dir == 0 || o.report.dir == o.dir && (o.report.stuck || o.report.leaving)) {
			// A recovered node reports the recovery, or makes room here for nodes still stuck.
			room = &idle
		}
		if e.Names(o.name) { // voters don't count against the limit, so standbys always have room
			add(o.name)
		} else if *room > 0 {
			add(o.name)
			*room--
		}
	}
	return dst
}

// Votes reports whether this node still is a voter.
func (m *stateLayer) Votes() bool { return m.state.Electorate.Has(m.Elector()) }
