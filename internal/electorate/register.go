package electorate

import (
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// A register is a small record outside of the mesh with compare-and-set. Of all meshes born by
// count with the same configuration, the record names the only mesh that may act. With a register,
// a single such mesh acts at a time, without a bound on the number of processes:
//
//   - Founders apply their pledges only once one of them has stored their lineage in the register.
// - A voter counts only for a term after it began a store of its own that succeeded, and that named
//     the lineage of the voter's electorate. So voters renew the record all the while.
//   - A record of another mesh is replaced only after it has stood unchanged for a term, and a
//     margin for clocks that drift, by the clock of the process that replaces it. Compare-and-set
//     sees to it that the record didn't change up to that moment.
//
// So the last store of the earlier mesh ended before the wait began, the storing voter's term was
// over at the end of the wait, and no vote of the earlier mesh was given after the founding of the
// next mesh. Leases of the earlier mesh end within a maximum TTL of the founding, and founders are
// quiet for as long; if the earlier mesh had a larger maximum TTL, the wait is longer by the
// difference. Loads may be stale: no vote is given because of a load.
//
// The record is about a mesh, not about the voters: a change of the electorate needs no register,
// unless the change raises the maximum TTL.

// registration is a process's knowledge of the register.
type registration struct {
	calling bool              // a call is under way
	call    vote.RegisterCall // the call under way
	began   vote.Now          // when the call under way began
	after   vote.Instant      // no call begins before this instant

	known  bool // the last call has told the record
	record vote.RegisterRecord
	since  vote.Instant // since when the record is known and the same
	// renewed: the record's mesh has renewed the record since this process, under its present
	// identity, first read the record: baseline. An earlier renewal may be the last.
	renewed, baseline bool
	// seen is the lineage that the register last named. A process that has never seen the lineage
	// of its electorate there, and finds no record, may have another register than the voters.
	seen uint64
	// counts is until when this node's votes count, on the fast clock, which doesn't stop while the
	// machine is suspended; zero if the votes don't count.
	counts vote.Instant
	failed string // why the last call failed; empty after a success
	// failing is since when calls have failed; zero after a success.
	failing vote.Instant
	// refused is why the last store failed, and refusedAt when. A successful load is no evidence
	// against such a failure.
	refused   string
	refusedAt vote.Instant
	warned    bool // an alarm has reported the end of the votes
	urgent    bool // a report makes the record worth another look
	// newest is the largest number of a change known to this process.
	newest uint64
	// superseded is since when the record has named another mesh than this process's, with an older
	// number; zero if the record names this process's mesh.
	superseded vote.Instant
	// lockedOutSince is since when a majority of the voters can't use the register, while enough
	// processes to found the next mesh can; zero otherwise.
	lockedOutSince vote.Instant
}

// renewAfter returns how long after its last store a voter stores again: three times within a term,
// so that votes go on counting while the register is out of reach for two thirds of a term.
func renewAfter(term time.Duration) time.Duration { return term / 3 }

// lookAfter returns how long after its last call a process without anything to store looks again.
func lookAfter(term time.Duration) time.Duration { return term / 6 }

// overdueAfter is how long a call may be under way before the call counts as failed, though the
// call may still end: a call that heeds its context has ended by then.
const overdueAfter = 20 * time.Second

// retryAfter returns the delay after a failed call.
func retryAfter(term time.Duration) time.Duration { return min(term/60, 10*time.Second) }

// urgentAfter returns the delay between urgent calls of a process: of a founder waiting for its
// mesh, and of a process that has heard of a mesh other than the known mesh.
func urgentAfter(term time.Duration) time.Duration { return min(term/60, time.Second) }

// registers reports whether this mesh has a register, and this process takes part in its use: a
// process without a vote for good doesn't.
func (m *contactLayer) registers() bool {
	return m.cfg.RegisterTerm > 0 && m.cfg.MayFound && (m.member() || !m.leaving)
}

// Counts returns until when this node's votes may count, on the fast clock; vote.Never without a
// register.
func (m *Machine) Counts() vote.Instant {
	if m.cfg.RegisterTerm == 0 {
		return vote.Never
	}
	return m.register.counts
}

// term returns the term of the present mesh, or of the next.
func (m *Machine) term() time.Duration {
	if r := &m.register; r.record.Term > 0 {
		return r.record.Term
	}
	return m.cfg.RegisterTerm
}

// isForeign reports whether the register is in use by a mesh of another name.
func (m *Machine) isForeign() bool {
	r := &m.register
	return r.known && !r.record.IsOf(m.state.Mesh)
}

// isRecordMissing reports whether the register has no record, though this process has learned of a
// mesh that must have one, and has never seen the mesh's record. A store would hide a register that
// isn't the other processes': each register would have the record of a mesh, and allow another
// mesh to be founded. A record that this process has seen was deleted, and is made anew.
func (m *Machine) isRecordMissing() bool {
	r, e := &m.register, &m.state.Electorate
	return r.known && r.record.IsZero() && e.Version > 0 && r.seen != e.Lineage
}

// foundingBlockedFor returns for how much longer the record of another mesh must stand unchanged
// before a replacement.
func (m *Machine) foundingBlockedFor() time.Duration {
	r := &m.register
	if r.record.IsZero() {
		return 0
	}
	hold := r.record.Term + max(r.record.MaxTTL-m.cfg.MaxTTL, 0)
	return max(hold+vote.Drift(hold)+time.Millisecond-m.now.Slow.Sub(r.since), 0)
}

// IsBarred reports whether this process knows no electorate, and the register lets no mesh be born:
// its record names another mesh that may be alive, or the record isn't known. Other such processes
// that accept this process are no evidence of a birth to come.
func (m *Machine) IsBarred() bool {
	return m.state.Electorate.Version == 0 && !m.mayFound()
}

// MayMeshBeAlive reports whether the mesh of the register's record may be alive, as far as this
// process knows: the record isn't known, or hasn't stood unchanged for long enough. False without a
// register. A voter renews the record within a third of a term, and this process looks each sixth.
func (m *Machine) MayMeshBeAlive() bool {
	return m.registers() && (!m.register.known || m.isRecordFresh())
}

// isRecordFresh reports whether the register's record was changed not long ago, or was first read.
func (m *Machine) isRecordFresh() bool {
	return m.now.Slow.Sub(m.register.since) < renewAfter(m.term())+2*lookAfter(m.term())
}

// isRenewed reports whether the mesh of the register's record is alive: it has renewed the record
// not long ago.
func (m *Machine) isRenewed() bool { return m.register.renewed && m.isRecordFresh() }

// mayFound reports whether the register allows a founding, as far as this process knows: there is
// no record, or the named mesh has ended.
func (m *Machine) mayFound() bool {
	return !m.registers() || m.register.known && !m.isForeign() && m.foundingBlockedFor() == 0
}

// canBeFounder reports whether this process may take part in a founding: the process must be able
// to write the register, if there is a register.
func (m *Machine) canBeFounder() bool {
	return !m.registers() || m.register.since != 0 && !m.cannotRegister()
}

// hasEnded reports whether the register names another mesh than the given mesh, as far as is known.
func (m *Machine) hasEnded(lineage uint64) bool {
	r := &m.register
	return r.known && !m.isForeign() && !r.record.IsZero() && r.record.Lineage != lineage
}

// isRegistered reports whether the register names the mesh of this node's pledge.
func (m *Machine) isRegistered() bool {
	return len(m.stored.Pledge) > 0 && m.register.known && !m.isForeign() && m.register.record.Lineage == lineage(m.stored.Pledge)
}

// isRegisterBehind reports whether the register may show a shorter maximum TTL than the voters are
// about to grant. The founders of the next mesh rely on the record's value. The record of a mesh
// never goes back to a shorter value.
func (m *Machine) isRegisterBehind() bool {
	r, e := &m.register, &m.state.Electorate
	return m.registers() && e.MaxTTL > e.OldMaxTTL && (r.record.Lineage != e.Lineage || r.record.MaxTTL < e.MaxTTL)
}

// nextCall returns the next call of the register, and the instant of the call.
func (m *Machine) nextCall() (call vote.RegisterCall, at vote.Instant) {
	r := &m.register
	load := vote.RegisterCall{Term: m.term()}
	switch {
	case !m.registers() || r.calling:
		return load, vote.Never
	case !r.known:
		return load, r.after
	case m.isForeign():
	case m.mustRegister && m.mayFound():
		return m.store(lineage(m.stored.Pledge)), r.after
	case m.member() && r.lockedOutSince != 0 && !m.cannotRegister():
		// The mesh may have ended: its record must not stand longer than needed. Voters without
		// access to the register go on trying.
	case m.member() && m.noMajoritySince == 0 && (r.record.IsZero() && !m.isRecordMissing() || r.record.Lineage == m.state.Electorate.Lineage):
		// The rest of a term is measured by the fast clock, like the term itself. Voters store at
		// different times, so that stores seldom meet.
		if r.record.MaxTTL < m.maxTTL() {
			return m.store(m.state.Electorate.Lineage), r.after
		}
		stagger := renewAfter(m.term()) / 4 * time.Duration(m.state.Dir%64) / 64
		rest := r.counts.Sub(m.now.Fast) - (m.term() - renewAfter(m.term()) + stagger)
		return m.store(m.state.Electorate.Lineage), max(r.after, m.now.Slow.Add(max(rest, 0)))
	}
	wait := lookAfter(m.term())
	e := &m.state.Electorate
	if r.urgent || len(m.state.Pledge) > 0 || e.Version > 0 && r.record.Lineage != e.Lineage {
		wait = urgentAfter(m.term())
	}
	return load, max(r.after, r.began.Slow.Add(wait))
}

// store returns the call to have the register name a mesh.
func (m *Machine) store(lineage uint64) vote.RegisterCall {
	old := m.register.record
	// Founders pledged to a longer maximum TTL than this founder's will grant the longer value.
	term, longest := m.cfg.RegisterTerm, max(m.maxTTL(), m.stored.PledgeMaxTTL)
	if old.Lineage == lineage {
		term = old.Term // other voters rely on the value
		// A voter without knowledge of a larger value must not hide this value.
		longest = max(longest, old.MaxTTL)
	}
	return vote.RegisterCall{Store: true, Old: old, Term: m.term(), New: vote.RegisterRecord{
		Mesh: m.state.Mesh, Lineage: lineage, Term: term, MaxTTL: longest, Renewal: old.Renewal + 1, Writer: m.Elector(),
	}}
}

// callRegister begins the next call of the register when due.
func (m *Machine) callRegister() {
	if r := &m.register; !m.member() {
		r.counts, r.warned = 0, false // no voter any more
	} else if text := m.registerTrouble(); !r.warned && text != "" && r.counts != 0 && m.now.Fast >= r.counts {
		r.warned = true
		m.alarms = append(m.alarms, "this voter could not write the register for "+m.term().String()+", so its votes don't count until it can: "+text)
	}
	call, at := m.nextCall()
	if at > m.now.Slow {
		return
	}
	r := &m.register
	r.calling, r.call, r.began, r.urgent = true, call, m.now, false
	m.calls = append(m.calls, call)
}

// RegisterCalls returns and clears the calls of the register to make now: none or one. A call of
// Registered must follow.
func (m *Machine) RegisterCalls() []vote.RegisterCall {
	c := m.calls
	m.calls = nil
	return c
}

// Registered reports the result of the register call under way.
func (m *Machine) Registered(now vote.Now, result vote.RegisterResult) {
	m.begin(now)
	r := &m.register
	if !r.calling {
		return
	}
	r.calling = false
	if result.Failed == "" {
		r.failing = 0
	} else if r.failing == 0 {
		r.failing = m.now.Slow
	}
	switch r.failed = result.Failed; {
	case r.failed != "":
		// The content of the register is unknown: a failed store may take effect, now or later.
		r.known, r.after = false, m.now.Slow.Add(retryAfter(m.term()))
		if r.call.Store {
			r.refused, r.refusedAt = r.failed, m.now.Slow
		}
	case result.Changed:
		r.known, r.after = false, m.now.Slow.Add(urgentAfter(m.term()))
		r.refused = ""
	case r.call.Store:
		r.after, r.refused = m.now.Slow, ""
		m.registerShows(r.call.New)
		m.registered(r.call.New)
	default:
		r.after = m.now.Slow
		m.registerShows(result.Record)
	}
	m.move()
	m.finish()
}

// registerShows takes in the record shown by a call.
func (m *Machine) registerShows(record vote.RegisterRecord) {
	r := &m.register
	if r.since == 0 || record != r.record {
		r.renewed = record.Lineage == r.record.Lineage && (r.renewed || r.baseline && record.Renewal > r.record.Renewal)
		r.record, r.since = record, m.now.Slow
	}
	r.known, r.baseline = true, true
	if !record.IsZero() && !m.isForeign() {
		r.seen = record.Lineage
	}
	e := &m.state.Electorate
	if e.Version == 0 || record.IsZero() || m.isForeign() || record.Lineage == e.Lineage {
		r.newest, r.superseded = max(r.newest, record.Renewal), 0
		return
	}
	// A load may be older than the known record. But if the record was deleted meanwhile, its
	// numbers have begun anew.
	stale := record.Renewal <= r.newest
	if r.superseded == 0 {
		r.superseded = m.now.Slow
	}
	if !stale || m.now.Slow.Sub(r.superseded) >= m.term() {
		m.alarms = append(m.alarms, "the register names another mesh, last renewed by "+string(record.Writer.Name)+", than the one of "+names(e.Deciding())+
			": this process gives up its electorate, and joins the other mesh")
		m.reborn()
	}
}

// registered notes a successful store of this process: the process's votes count for a term after
// the store began.
func (m *Machine) registered(record vote.RegisterRecord) {
	r := &m.register
	if m.state.Electorate.Version == 0 && m.isRegistered() {
		m.adoptPledge()
	}
	if record.Lineage == m.state.Electorate.Lineage {
		was := r.counts
		r.counts, r.warned = r.began.Fast.Add(record.Term), false
		if was <= m.now.Fast {
			// The voter has refused all sessions. Upon this message they are opened anew.
			for _, c := range m.connections() {
				m.sendElectorate(c)
			}
		}
	}
}

// registerTrouble returns why the register keeps this process from voting, or soon will; otherwise
// empty.
func (m *Machine) registerTrouble() string {
	r := &m.register
	switch {
	case !m.registers():
		return ""
	case m.isForeign():
		return fmt.Sprintf("the register is in use by the mesh %q, and this one is %q: give each mesh a register of its own", r.record.Mesh, m.state.Mesh)
	}
	reason := r.failed
	switch {
	case reason != "":
	case m.isRecordMissing() && m.now.Slow.Sub(r.since) >= SettleAfter(m.maxTTL()): // a replica may be behind
		return "the register has no record of this mesh, and " + names(m.state.Electorate.Deciding()) + " must have one: give all processes the same register. Votes of this process don't count"
	case r.refused != "" && m.now.Slow.Sub(r.refusedAt) < m.refusalLasts(): // afterwards another try is worthwhile
		reason = r.refused
	case r.calling && m.now.Slow.Sub(r.began.Slow) >= overdueAfter:
		reason = fmt.Sprintf("a call has been under way for %v, and ignores the end of its context", m.now.Slow.Sub(r.began.Slow).Round(time.Second))
	default:
		return ""
	}
	if r.counts > m.now.Fast {
		return fmt.Sprintf("the register can't be used: %s. This voter's votes count for another %v without it", reason, r.counts.Sub(m.now.Fast).Round(time.Second))
	}
	return "the register can't be used: " + reason + ". Votes of this process don't count without it"
}

// refusalLasts returns for how long a failed store counts against this process. A founding process
// tries again soon, since all founders may have failed for the same reason.
func (m *Machine) refusalLasts() time.Duration {
	if m.member() {
		return m.term()
	}
	return min(2*registerPatience, m.term())
}

// canUseRegister reports whether a voter's votes may count, as far as the register goes.
func (m *Machine) canUseRegister(v vote.Elector) bool {
	if v == m.Elector() {
		return !m.cannotRegister()
	}
	o := m.others[v.Name]
	return m.healthy(v) && !o.report.stuck
}

// isLockedOut reports whether a majority of the voters has been unable to use the register for a
// term, while so many processes in contact are able to that they can found the next mesh. Such a
// mesh grants nothing, and keeps others from founding.
func (m *Machine) isLockedOut() bool {
	r := &m.register
	e := &m.state.Electorate
	if m.cfg.RegisterTerm == 0 || !m.cfg.MayFound || e.Version == 0 || majority(e.Deciding(), m.canUseRegister) {
		r.lockedOutSince = 0
		return false
	}
	able := 0
	if !m.cannotRegister() && !m.leaving {
		able++
	}
	for _, o := range m.sorted() {
		if m.recent(o) && o.report.dir != 0 && !o.report.stuck && !o.report.leaving {
			able++
		}
	}
	switch {
	case able < m.cfg.Expect:
		r.lockedOutSince = 0
	case r.lockedOutSince == 0:
		r.lockedOutSince = m.now.Slow
	}
	return r.lockedOutSince != 0 && m.now.Slow.Sub(r.lockedOutSince) >= m.term()
}

// cannotRegister reports whether the register keeps this process from voting, and has for a while:
// a single call may fail.
func (m *Machine) cannotRegister() bool {
	r := &m.register
	if r.counts > m.now.Fast || m.registerTrouble() == "" {
		return false
	}
	brief := !m.isForeign() && r.failing != 0 && r.refused == "" && m.now.Slow.Sub(r.failing) < SettleAfter(m.maxTTL())
	return !brief
}

// registerText describes a founding's wait for the register; empty without such a wait.
func (m *Machine) registerText() string {
	r := &m.register
	switch text := m.registerTrouble(); {
	case !m.registers():
		return ""
	case text != "":
		return "no mesh can be founded: " + text
	case !r.known:
		return "waits for the register's answer"
	case m.foundingBlockedFor() > 0 && !m.isRegistered() && m.isRenewed():
		return fmt.Sprintf("the register names another mesh, and that mesh is alive: it has renewed its record, last by %s. "+
			"Have this process reach that mesh (Peers, Secret), or give each mesh a Mesh name and a register of its own. "+
			"Otherwise this process waits until the record has stood unchanged for %v (another %v)",
			r.record.Writer.Name, r.record.Term, m.foundingBlockedFor().Round(time.Second))
	case m.foundingBlockedFor() > 0 && !m.isRegistered():
		return fmt.Sprintf("the register names an earlier mesh, last renewed by %s: waits to hear of that mesh, or until its record has stood unchanged for %v (another %v)",
			r.record.Writer.Name, r.record.Term, m.foundingBlockedFor().Round(time.Second))
	}
	return ""
}
