package electorate

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Birth by count is the founding of a mesh of processes with random names and no disks: not by a
// list of names, but as soon as Config.Expect fresh processes reach each other. An ended process
// never comes back: each start draws a new identity, in place of a directory. So every voter is
// crash-stop, and a voter's promises need no disk.
//
// A process without knowledge of an electorate is fresh. A fresh process that hears of an
// electorate joins the electorate, and takes no part in a birth. Otherwise the process pledges its
// identity, once, to a single set of exactly Expect fresh processes; a process that knows the
// pledges of all applies the set as version 1. If a pledge isn't completed in time, the process
// undoes the pledge by drawing a new identity, as if the process had crashed and another process
// had started.
//
// If at most A processes of the mesh are alive at a time, an electorate never has a majority
// smaller than q, and Expect + q > A, then no two meshes hold valid leases at the same time,
// whatever the network does. All members of a founding were alive and fresh at the first pledge,
// since each member pledges later. So at the first pledge fewer than q living processes are outside
// of the founding. Any other mesh needs q living members to grant or refresh a lease, or to admit a
// process; the founders are no members, and the dead don't return. So no other mesh acts after the
// first pledge. Leases of another mesh end within a maximum TTL, and the founders are quiet for as
// long after their birth.

const (
	// birthMargin is how long the set of founders must have been the same before a pledge to the
	// set: long enough for processes that start together to find each other, so that processes with
	// knowledge of an electorate are heard of first.
	birthMargin = 2 * time.Second

	// registerPatience is how long a founder with the pledges of all waits until the register names
	// the founders: longer than several calls take.
	registerPatience = 20 * time.Second

	// pledgePatience is how long a pledge may take to be completed by the pledges of the others,
	// each a round trip after the pledge before.
	pledgePatience = 5 * time.Second
)

// AbandonAfter returns how long a process may see no majority of its electorate before the process
// gives up the electorate, and its identity. If the majority is only cut off for a while, the
// majority is back before, or has replaced its missing voters.
func AbandonAfter(maxTTL time.Duration) time.Duration { return 6 * maxTTL }

// alone reports whether the mesh is of this process only, which waits for no other.
func (m *stateLayer) alone() bool { return m.cfg.Expect == 1 }

// HasKnown reports whether this process knows an electorate, or knew one before it was reborn.
func (m *contactLayer) HasKnown() bool { return m.longest.value > 0 }

// byCount reports whether the mesh is born by count, and without directories.
func (m *stateLayer) byCount() bool { return m.cfg.Expect > 0 }

// birth pledges this node to a set of founders, or applies the set once all have pledged.
func (m *Machine) birth() {
	if !m.founding() {
		return
	}
	m.mustRegister = false
	if len(m.state.Pledge) > 0 && m.isRegistered() {
		m.adoptPledge()
		return
	}
	if m.isPledgeOverdue() {
		m.reborn()
		return
	}
	// Candidates with this process stay the same while they are fit: a process that comes and goes
	// mustn't begin their wait anew.
	if !slices.Contains(m.candidates, m.Elector()) || !m.mayFoundTogether(m.candidates) {
		if set := m.lowest(); !slices.Equal(set, m.candidates) {
			m.candidates, m.candidatesSince = set, m.now.Slow
		}
	}
	m.noteSilence()
	if m.awaited(m.anotherMesh) != nil {
		return
	}
	if len(m.state.Pledge) > 0 {
		m.complete()
		return
	}
	if o := m.pledgedTo(); o != nil {
		m.pledge(o.report.pledge, o.report.pledgeMaxVoters, o.report.pledgeMaxTTL)
		return
	}
	if m.candidates == nil || m.awaited(m.waitsForAnswer) != nil {
		return
	}
	turn := m.candidatesSince // when the lowest of the candidates acts
	if !m.alone() {
		turn = turn.Add(birthMargin + time.Duration(m.yields(m.candidates))*yieldFor)
	}
	if m.now.Slow >= turn && m.mayFound() && m.actsForAll(m.candidates, turn) {
		m.pledge(m.candidates, m.cfg.MaxVoters, m.pledgedMaxTTL(m.candidates))
	}
}

// nextFounderAfter is how much later the next founder acts if the one before doesn't.
const nextFounderAfter = 2 * time.Second

// actsForAll reports whether this node is the founder that acts for all. Without a register the
// lowest founder acts. With a register the next founders stand in: the lowest may have watched the
// register's record for too short a time, or may be unable to write.
func (m *stateLayer) actsForAll(set []vote.Elector, since vote.Instant) bool {
	rank := slices.Index(set, m.Elector())
	if rank <= 0 || m.cfg.RegisterTerm == 0 {
		return rank == 0
	}
	return m.now.Slow.Sub(since) >= time.Duration(rank)*nextFounderAfter
}

// isPledgeOverdue reports whether this node's pledge can't be expected to be completed any more.
func (m *Machine) isPledgeOverdue() bool {
	switch {
	case len(m.state.Pledge) == 0:
		return false
	case m.pledgesKnown != 0:
		return m.now.Slow.Sub(m.pledgesKnown) >= registerPatience
	}
	return m.now.Slow.Sub(m.pledgedAt) >= pledgePatience
}

// pledge pledges this node's identity to a set of founders, to the lowest founder's limit on the
// size of the electorate, and to the longest maximum TTL of all founders.
func (m *Machine) pledge(set []vote.Elector, most int, maxTTL time.Duration) {
	m.state.Pledge, m.state.PledgeMaxVoters, m.state.PledgeMaxTTL, m.pending = set, most, maxTTL, true
	m.pledgedAt, m.pledgesKnown = m.now.Slow, 0
	m.pollAt = m.now.Slow // the others are to know soon
}

// isFresh reports whether another process has just reported to know no electorate, and may take
// part in a birth.
func (m *contactLayer) isFresh(o *other) bool {
	return m.recent(o) && o.report.founding && o.report.dir != 0
}

// pledgedTo returns a process that has pledged to a set with this node, if all of the set are fresh
// and have pledged to nothing else; nil if there is none.
func (m *contactLayer) pledgedTo() *other {
	for _, o := range m.sorted() {
		set := o.report.pledge
		if !m.isFresh(o) || len(set) != m.cfg.Expect || !slices.Contains(set, m.Elector()) || !slices.Contains(set, vote.Elector{Name: o.name, Dir: o.report.dir}) {
			continue
		}
		if !slices.ContainsFunc(set, func(v vote.Elector) bool { return !m.mayPledge(v, set) }) {
			return o
		}
	}
	return nil
}

// mayPledge reports whether a founder is fresh, and has pledged to nothing but this set.
func (m *contactLayer) mayPledge(v vote.Elector, set []vote.Elector) bool {
	if v == m.Elector() {
		return true
	}
	o := m.others[v.Name]
	return o != nil && m.isFresh(o) && o.report.dir == v.Dir && (len(o.report.pledge) == 0 || slices.Equal(o.report.pledge, set))
}

// complete applies the founders as version 1 if all founders have pledged to the set, and the
// register, if any, names the founders.
func (m *Machine) complete() {
	set := m.stored.Pledge
	for _, v := range set {
		if v == m.Elector() {
			continue
		}
		o := m.others[v.Name]
		if o == nil || !m.recent(o) || o.report.dir != v.Dir || !slices.Equal(o.report.pledge, set) || o.report.pledgeMaxVoters != m.stored.PledgeMaxVoters || o.report.pledgeMaxTTL != m.stored.PledgeMaxTTL {
			return
		}
	}
	if !m.registers() {
		m.adoptPledge()
		return
	}
	if m.pledgesKnown == 0 {
		m.pledgesKnown = m.now.Slow
	}
	m.mustRegister = m.mayFound() && m.actsForAll(set, m.pledgesKnown)
}

// adoptPledge applies the founders of this node's pledge as version 1.
func (m *Machine) adoptPledge() {
	id := lineage(m.stored.Pledge)
	m.adopt(&vote.Electorate{Version: vote.BirthVersion(id), Lineage: id, Voters: m.stored.Pledge, Most: m.stored.PledgeMaxVoters, MaxTTL: m.stored.PledgeMaxTTL})
}

// abandon gives up this node's electorate, once no majority of the electorate has been seen for
// long.
func (m *Machine) abandon() bool {
	if m.isLockedOut() {
		m.alarms = append(m.alarms, "too few of the voters "+names(m.state.Electorate.Deciding())+" have been within reach and able to use the register for "+
			m.term().String()+", and "+fmt.Sprint(m.cfg.Expect)+" processes (Expect) are able to: this process gives up the electorate, and founds or joins another")
		m.reborn()
		return true
	}
	if !m.byCount() || m.state.Electorate.Version == 0 || m.noMajoritySince == 0 ||
		m.now.Slow.Sub(m.noMajoritySince) < AbandonAfter(m.maxTTL()) {
		return false
	}
	m.alarms = append(m.alarms, "no majority of the voters "+names(m.state.Electorate.Deciding())+" has been seen for "+
		AbandonAfter(m.maxTTL()).String()+": this process gives up the electorate, and founds or joins another")
	m.reborn()
	return true
}

// reborn has this node end as if the process had crashed, and begin as a fresh process with another
// identity. The owner sees the new identity, and gives up the voter and the leases of the old
// identity. All connections are closed: the messages on these connections came from the old
// identity.
func (m *Machine) reborn() {
	m.births++
	m.state = vote.DiskState{Mesh: m.state.Mesh, Name: m.state.Name, Dir: nextIdentity(m.cfg.Self.Incarnation, m.births)}
	m.stored, m.pending = m.state, true
	m.deferred, m.race, m.raceAt, m.needed, m.drain = nil, nil, 0, "", drain{}
	m.noMajoritySince, m.adopted = 0, m.now.Slow
	m.candidates, m.candidatesSince = nil, m.now.Slow
	m.pledgesKnown, m.mustRegister = 0, false
	m.register.counts, m.register.warned, m.register.superseded, m.register.lockedOutSince = 0, false, 0, 0
	m.register.renewed, m.register.baseline = false, false // the mesh of the old identity may have ended
	m.started, m.pollAt = m.now.Slow, m.now.Slow
	for _, c := range m.connections() {
		m.out = append(m.out, vote.Outbound{Conn: c, Close: true})
	}
	clear(m.conns)
	for _, o := range m.sorted() {
		o.up, o.spoke = false, false
	}
	clear(m.ties)
}

// nextIdentity returns the identity of a process after a number of rebirths. An incarnation is
// random, so no two processes have an identity in common; the function is the finalizer of
// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
func nextIdentity(incarnation vote.Incarnation, births uint64) vote.Dir {
	x := uint64(incarnation) + births*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return vote.Dir((x ^ x>>31) | 1)
}

// reaches reports whether the sender of a message has just been in contact with a majority of an
// electorate. A fresh process joins an electorate only then: otherwise processes without their lost
// majority would tell each other of the electorate without end.
func reaches(e *vote.Consensus) bool {
	return majority(e.Electorate.Deciding(), func(v vote.Elector) bool { return slices.Contains(e.Contacts, v) })
}

// freshContacts returns the fresh processes in direct contact with this process; itself first.
func (m *contactLayer) freshContacts() []vote.Elector {
	all := []vote.Elector{m.Elector()}
	for _, o := range m.sorted() {
		if m.isFresh(o) && len(all) < vote.MaxVoters {
			all = append(all, vote.Elector{Name: o.name, Dir: o.report.dir})
		}
	}
	return all
}

// learnOtherBirth takes in an electorate of another birth than this process knows of, if any.
func (m *Machine) learnOtherBirth(from vote.NodeID, e *vote.Consensus) {
	ours := &m.state.Electorate
	switch {
	case !reaches(e):
	case m.registers() && ours.Version > 0:
		m.register.urgent = true // the register says which of the two has ended
	case ours.Version > 0 && !e.Electorate.Names(from):
		// Only voters know at once when their majority is gone.
	case ours.Version > 0 && m.noMajoritySince == 0 && e.Electorate.Version < ours.Version:
		// Both meshes have a majority. The mesh with the lower version gives way, since only its
		// processes hear of the other mesh: see NoteVersion.
	case ours.Version > 0:
		if m.noMajoritySince == 0 && m.cfg.RegisterTerm == 0 {
			m.alarms = append(m.alarms, fmt.Sprintf("TWO MESHES of one name have met, the other with the voters %s, and locks may have had two holders: "+
				"more processes ran at a time than Expect (%d) allows for. This process gives up its electorate, and joins the other", names(e.Electorate.Deciding()), m.cfg.Expect))
		}
		m.reborn()
	case len(m.state.Pledge) > 0 && e.Electorate.Lineage == lineage(m.state.Pledge):
		m.adopt(&e.Electorate)
	case m.registers() && m.hasEnded(e.Electorate.Lineage):
		m.register.urgent = true
	case len(m.state.Pledge) > 0:
		// The pledge may still be counted by the other founders. An identity must not be a voter of
		// two meshes, even if the other mesh has voted this identity in already.
		m.reborn()
	default:
		m.adopt(&e.Electorate)
	}
}

// birthText describes the condition for the birth.
func (m *Machine) birthText() string {
	if o := m.awaited(m.waitsForAnswer); o != nil && len(m.state.Pledge) == 0 {
		return m.answerText(o)
	}
	if text := m.registerText(); text != "" {
		return text
	}
	var fresh, bound []vote.Elector
	for _, o := range m.sorted() {
		switch v := (vote.Elector{Name: o.name, Dir: o.report.dir}); {
		case !m.isFresh(o):
		case len(o.report.pledge) > 0 && !slices.Contains(o.report.pledge, m.Elector()):
			bound = append(bound, v)
		default:
			fresh = append(fresh, v)
		}
	}
	others := "no other process"
	if len(fresh) > 0 {
		others = names(fresh)
	}
	switch {
	case m.pledgesKnown != 0:
		return "founds the mesh with the processes " + names(m.state.Pledge) + ", and waits for the register to name them"
	case len(m.state.Pledge) > 0:
		return "founds the mesh with the processes " + names(m.state.Pledge) + ", and waits for their pledges"
	case len(bound) > 0 && len(fresh)+1 < m.cfg.Expect:
		return "waits for " + names(bound) + ", which found the mesh with other processes"
	case len(fresh)+1 < m.cfg.Expect:
		return fmt.Sprintf("waits until %d processes (Expect) reach each other; this process reaches %s", m.cfg.Expect, others)
	case m.candidates == nil:
		return fmt.Sprintf("waits until %d processes (Expect) all reach each other; this process reaches %s, and links among them are broken", m.cfg.Expect, others)
	}
	return "founds the mesh with the processes " + names(m.candidates)
}
