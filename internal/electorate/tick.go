package electorate

import (
	"time"

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

// triedFor returns for how long the same nodes are tried, of more silent nodes than there is room
// for: long enough for a connection and a report.
func triedFor(maxTTL time.Duration) time.Duration { return maxTTL / 2 }

// AppendWanted appends to dst the nodes to which this node wants connections, besides the voters,
// in no order; a name may occur twice. While this node knows no electorate, these are the founders
// and all nodes alive in gossip; on a voter, and on each process of a mesh whose processes are
// bounded, the standbys; and while no majority is reachable, again all nodes alive in gossip, since
// the electorate may have moved on.
//
// On a node that knows an electorate, nodes that report come first, and silent nodes are tried by
// turns: gossip shows dead nodes as alive for seconds, and as many dead nodes as there is room for
// must not keep a live node out. A process that knows no electorate wants the first nodes by name,
// whether they report or not: so processes that start together want the same nodes, and as many of
// them as Expect are all linked to each other.
//
// A node that reports is wanted though gossip sees it failed: gossip may be wrong, and direct
// contact isn't.
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
	lonely := m.lonely()
	var room, silent [2]int // by the nodes' use
	room[usable], room[idle] = wantedMost, wantedMost
	for _, o := range m.sorted() {
		switch use := m.useOf(o, lonely); {
		case use == useless:
		case e.Names(o.name): // voters don't count against the limit, so standbys always have room
			add(o.name)
		case e.Version > 0 && !m.recent(o):
			silent[use]++
		case room[use] > 0:
			add(o.name)
			room[use]--
		}
	}
	turn := int(m.now.Slow.Sub(m.started) / triedFor(m.maxTTL()))
	for use, n := range silent {
		if n == 0 || room[use] == 0 {
			continue
		}
		first, at := 0, 0
		if n > room[use] {
			first = turn * room[use] % n
		}
		for _, o := range m.sorted() {
			if int(m.useOf(o, lonely)) == use && !e.Names(o.name) && !m.recent(o) {
				if (at-first+n)%n < room[use] {
					add(o.name)
				}
				at++
			}
		}
	}
	return dst
}

// use is the use of a connection to another node.
type use int

const (
	useless use = iota - 1
	usable      // the node may be voted in, or know of an electorate
	idle        // the node can't be voted in, but may know the electorate
)

// useOf returns the use of a connection to another node, for a node that is lonely or not.
func (m *contactLayer) useOf(o *other, lonely bool) use {
	// Where only so many processes may run at once, each of them has to know which still run.
	others := m.member() || m.isBounded() && m.state.Dir != 0
	switch {
	case o.seen != vote.Alive && (o.seen != vote.Failed || !m.recent(o)), !lonely && (!others || o.dir == 0):
		return useless
	case m.byCount() && (o.dir == 0 || o.report.dir == o.dir && (o.report.stuck || o.report.leaving)):
		// A recovered node reports the recovery, or makes room here for nodes still stuck.
		return idle
	}
	return usable
}

// lonely reports whether this node is linked to no majority of the voters, or knows no electorate.
func (m *contactLayer) lonely() bool {
	self := m.Elector()
	return !decides(&m.state.Electorate, func(v vote.Elector) bool {
		o := m.others[v.Name]
		return v == self || o != nil && o.up
	})
}

// Votes reports whether this node still is a voter.
func (m *stateLayer) Votes() bool { return m.state.Electorate.Has(m.Elector()) }
