package electorate

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// drain is the wait between a joint electorate and the final one. Once majorities of the old and of
// the new voters have applied the joint version for longer than any of their earlier
// acknowledgements lasts, no lease can depend on the old voters alone.
type drain struct {
	seen  []vote.Elector // the voters that apply the joint version, and remember
	begun bool
	since vote.Instant
	fresh uint64 // answers to a poll from this number on are from after the drain
}

// Drain returns the length of the drain on the clock of the waiting node: one maximum TTL on any
// clock, however fast the clock runs within the allowed drift.
func Drain(maxTTL time.Duration) time.Duration {
	return maxTTL + vote.Drift(maxTTL) + time.Millisecond
}

// FailAfter returns how long a majority of the voters must have had no direct contact with a voter,
// less the contact in between, before the voter is absent: long enough for a restart with its
// startup quarantine.
func FailAfter(maxTTL time.Duration) time.Duration { return 3 * maxTTL }

// CrashLoopAfter returns how long a voter's votes must not have counted before the voter is absent,
// if the voter has been started [crashLoopStarts] times meanwhile: longer than an absence of less
// than [FailAfter] and a startup quarantine take. A process that crashes soon after each start
// never counts, and is never out of reach for long.
func CrashLoopAfter(maxTTL time.Duration) time.Duration { return 2 * FailAfter(maxTTL) }

// crashLoopStarts is how many starts make a crash loop: more than an operator's restarts. Votes of
// a node in the middle of a conversion don't count either, for as long as the operator waits.
const crashLoopStarts = 3

// SettleAfter returns how long a node must have been reachable before it is voted in. Its startup
// quarantine is over then.
func SettleAfter(maxTTL time.Duration) time.Duration { return maxTTL }

// raceTime returns the time limit of a ballot: two round trips and, at each voter of a majority,
// two writes to a disk that may be slow.
func (m *stateLayer) raceTime() time.Duration { return m.maxTTL() }

// candidateDelay returns how long this voter lets others go first: half a maximum TTL for each
// answering voter with an earlier name.
func (m *contactLayer) candidateDelay() time.Duration {
	rank := 0
	for _, v := range m.state.Electorate.All() {
		if v == m.Elector() {
			break
		}
		if m.healthy(v) {
			rank++
		}
	}
	return time.Duration(rank) * m.maxTTL() / 2
}

// move does all work that is due: polls, the founding, the drain, and changes of the electorate
// after changes of membership.
func (m *Machine) move() {
	if majority(m.state.Electorate.Deciding(), m.healthy) {
		m.noMajoritySince = 0
	} else if m.noMajoritySince == 0 {
		m.noMajoritySince = m.now.Slow
	}
	if m.abandon() {
		return
	}
	if m.now.Slow >= m.pollAt && m.polls() {
		m.pollAll()
	}
	if m.race != nil && m.now.Slow >= m.race.until {
		m.race = nil
		m.raceAt = m.now.Slow.Add(m.candidateDelay())
	}
	switch {
	case m.state.Electorate.Version == 0 && m.byCount():
		m.birth()
	case m.state.Electorate.Version == 0:
		m.found()
	case !m.member() || m.stored.Electorate.Version != m.state.Electorate.Version || m.cannotSave() != "":
	case m.state.Electorate.Joint():
		m.conclude()
	default:
		m.reconcile()
	}
}

func (m *contactLayer) pollAll() {
	if m.member() {
		// Contacts are compared once for each round of answers: with many voters there is much to
		// compare.
		m.compareContacts()
	}
	m.nonce++
	m.pollAt = m.now.Slow.Add(m.pollEvery())
	for _, o := range m.sorted() {
		if m.isDead(o) {
			m.out = append(m.out, vote.Outbound{Conn: o.conn, Close: true})
			o.up = false
		}
		m.poll(o)
	}
}

// want starts a ballot for an electorate when this node's candidate delay is over.
func (m *Machine) want(value vote.Electorate, reason string) {
	if reason != m.needed {
		m.needed, m.neededAt = reason, m.now.Slow
	}
	if m.race == nil && m.now.Slow >= m.raceAt && m.now.Slow.Sub(m.neededAt) >= m.candidateDelay() {
		m.run(value)
	}
}

// conclude has a joint electorate followed by its new voters alone, once the joint electorate is
// drained.
func (m *Machine) conclude() {
	e, d := &m.state.Electorate, &m.drain
	for _, v := range e.All() {
		if m.applies(v, 0) && !slices.Contains(d.seen, v) {
			d.seen = append(d.seen, v)
		}
	}
	if !d.begun && decides(e, func(v vote.Elector) bool { return slices.Contains(d.seen, v) }) {
		d.begun, d.since = true, m.now.Slow
	}
	if m.now.Slow.Sub(m.adopted) >= FailAfter(m.maxTTL()) && !majority(e.Voters, m.healthy) && majority(e.Old, m.healthy) {
		// Without the new voters no lock can be granted. The old voters alone may be restored at
		// once: every lease under this electorate, or under the version before, has a majority of
		// the old voters.
		m.want(vote.Electorate{Version: e.Version + 1, Lineage: e.Lineage, Voters: e.Old,
			MinToken: e.MinToken, Most: e.Most, MaxTTL: e.OldMaxTTL}, "back to "+names(e.Old)+" (too few of the new voters "+
			"are reachable)")
		return
	}
	if !d.begun || m.now.Slow.Sub(d.since) < Drain(m.maxTTL()) || m.isRegisterBehind() {
		return
	}
	if d.fresh == 0 {
		m.pollAll()
		d.fresh = m.nonce
	}
	confirms := func(v vote.Elector) bool {
		return m.applies(v, d.fresh) && (v == m.Elector() || !m.implausible(v.Name))
	}
	if !decides(e, confirms) {
		return
	}
	minToken := e.MinToken
	for _, v := range e.All() {
		if !confirms(v) {
			continue
		}
		if v == m.Elector() {
			minToken = max(minToken, m.own.Top)
		} else {
			minToken = max(minToken, m.others[v.Name].report.top)
		}
	}
	m.want(vote.Electorate{Version: e.Version + 1, Lineage: e.Lineage, Voters: e.Voters, MinToken: max(e.MinToken, min(minToken, vote.MaxMinToken)), Most: e.Most, MaxTTL: e.MaxTTL}, "the end of the joint electorate")
}

// applies reports whether a voter applies the newest known electorate and remembers, according to
// its answer to poll number nonce or a later poll.
func (m *contactLayer) applies(v vote.Elector, nonce uint64) bool {
	if v == m.Elector() {
		return m.remembers() // the known electorate is stored: move concludes nothing before
	}
	o := m.others[v.Name]
	return o != nil && o.confirmed && o.report.dir == v.Dir && o.copied != v.Dir && o.report.version == m.state.Electorate.Version && o.report.counting &&
		o.report.nonce >= nonce && (nonce == 0 || m.recent(o))
}

// reconcile has the electorate changed when the live nodes differ from the voters.
func (m *Machine) reconcile() {
	e, most, maxTTL := &m.state.Electorate, m.mostVoters(), m.wantedMaxTTL()
	target, reason := m.target()
	switch {
	case target != nil:
	case e.Most > 0 && e.Most != most:
		target, reason = e.Voters, fmt.Sprintf("the limit is %d voters, as configured on most of "+
			"them; it was %d", most, e.Most)
	case e.MaxTTL != maxTTL:
		target, reason = e.Voters, fmt.Sprintf("the MaxTTL is %v, as configured on most of "+
			"them; it was %v", maxTTL, e.MaxTTL)
	default:
		m.needed = ""
		return
	}
	m.want(m.joint(target, most, maxTTL), reason)
}

// joint returns the joint electorate from the present electorate to the given voters, limit and
// maximum TTL.
func (m *stateLayer) joint(voters []vote.Elector, most int, maxTTL time.Duration) vote.Electorate {
	e := &m.state.Electorate
	return vote.Electorate{Version: e.Version + 1, Lineage: e.Lineage, Voters: voters, Old: e.Voters, MinToken: e.MinToken, Most: most, MaxTTL: maxTTL, OldMaxTTL: e.MaxTTL}
}

// decision is the decision on a voter's seat.
type decision uint8

const (
	// stays: the voter can be counted on, or is in doubt.
	stays decision = iota
	// absent: the voter can't be counted on, and may come back. Its seat goes only where removing
	// the seat helps; see [Machine.target].
	absent
	// parts: the voter gives up its seat, because it leaves, or because its directory is lost and
	// the node's new directory can take the seat.
	parts
)

// decisionOn returns the decision on a voter's seat, and the reason; the reason is empty if the
// voter stays.
func (m *contactLayer) decisionOn(v vote.Elector) (decision, string) {
	if v == m.Elector() {
		if m.leaving {
			return parts, "it leaves"
		}
		return stays, ""
	}
	o := m.others[v.Name]
	if o == nil {
		o = m.other(v.Name)
	}
	long := FailAfter(m.maxTTL())
	recent := m.recent(o)
	switch {
	case recent && o.report.dir == v.Dir && o.report.leaving:
		return parts, "it leaves"
	case o.seen == vote.Left && m.tie(v).cut != 0:
		return parts, "it has left"
	case recent && o.report.dir != v.Dir && m.now.Slow.Sub(o.since) >= SettleAfter(m.maxTTL()):
		// Names are unique in a joint electorate, so the new directory comes in by a change of its
		// own, right after this change. A new directory that can't vote doesn't cost the seat.
		reason := "its state directory was replaced"
		if m.byCount() {
			reason = sameNameReason
		}
		if m.standby(o) {
			return parts, reason
		}
		return absent, reason
	case o.copied == v.Dir && m.now.Slow.Sub(o.copiedAt) >= long:
		return absent, "its state directory is an old copy"
	case recent && o.report.stuck && m.now.Slow.Sub(o.report.stuckSince) >= long:
		if m.byCount() {
			return absent, "it can't use the register"
		}
		return absent, "it can't write its state"
	case recent && o.lagging && m.now.Slow.Sub(o.laggingSince) >= long:
		return absent, "it doesn't store the electorate"
	case (recent || m.tie(v).cut != 0) && o.report.dir == v.Dir && o.uncounted.starts >= crashLoopStarts && m.now.Slow.Sub(o.uncounted.since) >= CrashLoopAfter(m.maxTTL()):
		return absent, "it is restarted again and again before its votes count"
	case m.tie(v).absence(m.now.Slow) >= long:
		switch {
		case m.now.Slow.Sub(m.tie(v).cut) < long:
			return absent, "most voters reach it for moments only"
		case o.seen == vote.Alive:
			return absent, "gossip sees it, and most voters can't connect to it"
		}
		return absent, "it is gone"
	}
	return stays, ""
}

// sameNameReason is why a voter of a mesh that is born by count gives its seat up to the process that
// was started under its name.
const sameNameReason = "it is another process of its name"

// standby reports whether a node may be voted in.
func (m *contactLayer) standby(o *other) bool {
	return o.seen == vote.Alive && o.dir != 0 && m.now.Slow.Sub(o.since) >= SettleAfter(m.maxTTL()) &&
		m.recent(o) && m.isMet(vote.Elector{Name: o.name, Dir: o.dir}) && o.report.dir == o.dir && o.report.version == m.state.Electorate.Version && !o.report.stuck && !o.report.leaving && o.copied != o.dir
}

// standbySoon reports whether a node without a vote may soon be on standby. A node may be, if the
// node has started recently. If the electorate is new, any node may be: a node may not yet have
// reported its version, or may not have been seen since its start. After a time limit the answer is
// no. While voters leave, nodes that start later than the newest of these began to leave don't
// count: where processes crash in a loop, under ever new names, there always is such a node.
func (m *contactLayer) standbySoon() bool {
	if m.now.Slow.Sub(m.adopted) < standbyMargin {
		return true
	}
	latest := vote.Never
	if began := m.leaveBegan(); began != 0 {
		latest = began.Add(standbyMargin)
	}
	for _, o := range m.others { // in any order
		if m.mayStandBy(o) && o.since <= latest && m.now.Slow.Sub(o.since) < SettleAfter(m.maxTTL())+standbyMargin {
			return true
		}
	}
	return false
}

// leaveBegan returns when the newest of the leaving voters began to leave, as far as this node
// knows; zero if no voter leaves.
func (m *contactLayer) leaveBegan() (began vote.Instant) {
	for _, v := range m.state.Electorate.Voters {
		switch o := m.others[v.Name]; {
		case v == m.Elector() && m.leaving:
			began = max(began, m.leftAt)
		case o == nil:
		case o.seen == vote.Left:
			began = max(began, o.since)
		case o.report.dir == v.Dir && o.report.leaving:
			began = max(began, o.report.leavingSince)
		}
	}
	return began
}

// awaitsStandbys reports whether processes on standby, of a mesh that is born by count, have yet to
// report that they apply the newest electorate.
func (m *contactLayer) awaitsStandbys() bool {
	return m.byCount() && m.now.Slow.Sub(m.adopted) < standbyMargin
}

// takesAll reports whether a single change votes in all nodes on standby, of a mesh that is born by
// count: of the next voters most have been voters before. See [seats].
func (m *stateLayer) takesAll(stay, in, most int) bool {
	return !m.byCount() || 2*stay-1 >= min(stay+in, most)
}

// mayStandBy reports whether another node is alive, doesn't vote, and meets the needs of a voter.
func (m *stateLayer) mayStandBy(o *other) bool {
	votes := slices.ContainsFunc(m.state.Electorate.Voters, func(v vote.Elector) bool { return v.Name == o.name })
	return !votes && o.seen == vote.Alive && o.dir != 0 && o.copied != o.dir && !o.report.stuck && !o.report.leaving
}

// standbyMargin is the longest time until the voters have seen a newly started node, or have a
// node's report about a new electorate: a few polls, of a busy node, too.
const standbyMargin = 2 * time.Second

// healthy reports whether a voter is reachable and can take part in a change. A voter of a mesh
// with a register is stuck if its votes on locks don't count; the voter decides on changes
// nevertheless.
func (m *contactLayer) healthy(v vote.Elector) bool {
	if v == m.Elector() {
		return true
	}
	o := m.others[v.Name]
	return o != nil && m.recent(o) && o.report.dir == v.Dir && (!o.report.stuck || m.byCount()) && o.copied != v.Dir
}
