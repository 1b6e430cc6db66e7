package electorate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// drain is the wait between a joint electorate and the final one. Once majorities of the old and of the new voters have gone by the joint version
// for as long as anything lasts that they acknowledged before, no lease can stand under the old voters alone.
type drain struct {
	seen  []vote.Elector // who goes by the joint version, and remembers
	begun bool
	since vote.Instant
	fresh uint64 // reports to polls from this one on were made after the drain
}

// Drain is how long the drain lasts by the clock of the one who waits: a maximum TTL, by whatever clock that runs.
func Drain(maxTTL time.Duration) time.Duration {
	return maxTTL + vote.Drift(maxTTL) + time.Millisecond
}

// FailAfter is how long a voter must have been gone, as gossip sees it and by direct connection, until it is voted out: long enough for
// a restart with its quiet time.
func FailAfter(maxTTL time.Duration) time.Duration { return 3 * maxTTL }

// SettleAfter is how long a node must have been there until it is voted in. It is no longer quiet then.
func SettleAfter(maxTTL time.Duration) time.Duration { return maxTTL }

// raceTime is how long an attempt may take: two round trips and, at each of a majority, two writes to a disk that may be slow.
func (m *Machine) raceTime() time.Duration { return m.cfg.MaxTTL }

// turn is for how long this voter lets others go first: they are tried in the order of their names, as far as they answer.
func (m *Machine) turn() time.Duration {
	rank := 0
	for _, v := range m.state.Electorate.All() {
		if v == m.Elector() {
			break
		}
		if m.well(v) {
			rank++
		}
	}
	return time.Duration(rank) * m.cfg.MaxTTL / 2
}

// move does what is to be done at this point: polls, founds, drains, and has the electorate changed where the living have.
func (m *Machine) move() {
	if majority(m.state.Electorate.Deciding(), m.well) {
		m.away = 0
	} else if m.away == 0 {
		m.away = m.now.Slow
	}
	if m.now.Slow >= m.pollAt && (m.member() || m.state.Electorate.Version == 0) {
		m.pollAll()
	}
	if m.race != nil && m.now.Slow >= m.race.until {
		m.race = nil
		m.raceAt = m.now.Slow.Add(m.turn())
	}
	switch {
	case m.state.Electorate.Version == 0:
		m.found()
	case !m.member() || m.stored.Electorate.Version != m.state.Electorate.Version || m.stuck != "":
	case m.state.Electorate.Joint():
		m.conclude()
	default:
		m.follow()
	}
}

func (m *Machine) pollAll() {
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

// want runs for an electorate, unless it isn't our turn yet.
func (m *Machine) want(value vote.Electorate, why string) {
	if why != m.needed {
		m.needed, m.neededAt = why, m.now.Slow
	}
	if m.race == nil && m.now.Slow >= m.raceAt && m.now.Slow.Sub(m.neededAt) >= m.turn() {
		m.run(value)
	}
}

// conclude has a joint electorate followed by its new voters alone, once it is drained.
func (m *Machine) conclude() {
	e, d := &m.state.Electorate, &m.drain
	for _, v := range e.All() {
		if m.goesBy(v, 0) && !slices.Contains(d.seen, v) {
			d.seen = append(d.seen, v)
		}
	}
	if !d.begun && decides(e, func(v vote.Elector) bool { return slices.Contains(d.seen, v) }) {
		d.begun, d.since = true, m.now.Slow
	}
	if m.now.Slow.Sub(m.adopted) >= FailAfter(m.cfg.MaxTTL) && !majority(e.Voters, m.well) && majority(e.Old, m.well) {
		// Without the new voters no lock can be had. The old ones alone may be had back at once: what stands under this electorate, or stood
		// under the one before, has a majority of them.
		m.want(vote.Electorate{Version: e.Version + 1, Lineage: e.Lineage, Voters: e.Old, Floor: e.Floor}, "back to "+names(e.Old)+" (too few of the new voters are there)")
		return
	}
	if !d.begun || m.now.Slow.Sub(d.since) < Drain(m.cfg.MaxTTL) {
		return
	}
	if d.fresh == 0 {
		m.pollAll()
		d.fresh = m.nonce
	}
	if !decides(e, func(v vote.Elector) bool { return m.goesBy(v, d.fresh) }) {
		return
	}
	floor := e.Floor
	for _, v := range e.All() {
		if !m.goesBy(v, d.fresh) {
			continue
		}
		if v == m.Elector() {
			floor = max(floor, m.own.Top)
		} else {
			floor = max(floor, m.others[v.Name].told.top)
		}
	}
	m.want(vote.Electorate{Version: e.Version + 1, Lineage: e.Lineage, Voters: e.Voters, Floor: min(floor, vote.MaxToken/2)}, "the end of the joint electorate")
}

// goesBy reports whether a voter goes by the electorate that we know and remembers, as it has said in answer to a poll from nonce on.
func (m *Machine) goesBy(v vote.Elector, nonce uint64) bool {
	if v == m.Elector() {
		return m.stored.Electorate.Version == m.state.Electorate.Version && m.remembers()
	}
	o := m.others[v.Name]
	return o != nil && o.firm && o.told.dir == v.Dir && o.copied != v.Dir && o.told.elected == m.state.Electorate.Version && o.told.counting &&
		o.told.nonce >= nonce && (nonce == 0 || m.recent(o))
}

// follow has the electorate changed where those who live are others than those who vote.
func (m *Machine) follow() {
	target, why := m.target()
	if target == nil {
		m.needed = ""
		return
	}
	e := &m.state.Electorate
	m.want(vote.Electorate{Version: e.Version + 1, Lineage: e.Lineage, Voters: target, Old: e.Voters, Floor: e.Floor}, why)
}

// gone says why a voter is to be voted out; empty if it isn't.
func (m *Machine) gone(v vote.Elector) string {
	if v == m.Elector() {
		if m.leaving {
			return "it leaves"
		}
		return ""
	}
	o := m.others[v.Name]
	if o == nil {
		o = m.other(v.Name)
	}
	long := FailAfter(m.cfg.MaxTTL)
	recent := m.recent(o)
	switch {
	case recent && o.told.dir == v.Dir && o.told.leaving:
		return "it leaves"
	case o.seen == Left && !recent:
		return "it has left"
	case recent && o.told.dir != v.Dir && m.now.Slow.Sub(o.since) >= SettleAfter(m.cfg.MaxTTL):
		return "its state directory is another"
	case o.copied == v.Dir && m.now.Slow.Sub(o.badly) >= long:
		return "its state directory is an old copy"
	case recent && o.told.stuck && m.now.Slow.Sub(o.told.stuckSince) >= long:
		return "it can't write its state"
	case o.seen != Alive && m.now.Slow.Sub(o.heard) >= long && m.now.Slow.Sub(max(o.since, m.started)) >= long:
		return "it is gone"
	}
	return ""
}

// standby reports whether a node may be voted in.
func (m *Machine) standby(o *other) bool {
	return o.seen == Alive && o.dir != 0 && m.now.Slow.Sub(o.since) >= SettleAfter(m.cfg.MaxTTL) &&
		m.recent(o) && o.told.dir == o.dir && o.told.elected == m.state.Electorate.Version && !o.told.stuck && !o.told.leaving && o.copied != o.dir
}

// target returns who should vote instead of those who do, in order, and why; nil if all is well.
//
// Even sizes are avoided: four voters survive no more losses than three. Two are kept where there were three, since one would be the
// operator's choice to make. Those who stay are a majority of the new voters, so that a newcomer which dies at once blocks nothing; only a single voter takes two at a time.
func (m *Machine) target() (target []vote.Elector, why string) {
	e := &m.state.Electorate
	var stay, out, in []vote.Elector
	var reasons []string
	for _, v := range e.Voters {
		if text := m.gone(v); text != "" {
			out = append(out, v)
			reasons = append(reasons, fmt.Sprintf("%s out (%s)", v.Name, text))
		} else {
			stay = append(stay, v)
		}
	}
	for _, o := range m.sorted() {
		v := vote.Elector{Name: o.name, Dir: o.dir}
		if m.standby(o) && !slices.ContainsFunc(e.Voters, func(w vote.Elector) bool { return w.Name == v.Name }) {
			in = append(in, v)
		}
	}
	if len(e.Voters) > 2 && len(stay)+len(in) < 2 {
		// Most of them leave at once. Those who stand by their vote until the others are gone go last.
		for _, v := range slices.Backward(out) {
			if m.well(v) && len(stay)+len(in) < 2 {
				stay = append(stay, v)
			}
		}
		slices.SortFunc(stay, vote.Elector.Compare)
	}
	in = in[:min(len(in), vote.MaxVoters-len(e.Voters))] // both halves of a joint electorate together are bounded, too
	// A limit of one or two doesn't make the many so few: of two none may be lost, and one would never come about, so that nobody were voted out any more.
	most := max(m.most(), min(len(e.Voters), 3))
	size := min(len(stay)+len(in), most)
	switch {
	case len(e.Voters) == 1 && size < 3: // one hands over to one
		size = min(size, 1)
	case len(e.Voters) > 1:
		size = min(size, max(2*len(stay)-1, 2))
	}
	if size > 2 && size%2 == 0 {
		size--
	}
	if size == 0 || size == 1 && len(e.Voters) > 1 {
		return nil, ""
	}
	for len(stay) > size {
		i := m.leastWanted(stay)
		why := "an even electorate survives no more"
		if len(stay) > most {
			why = fmt.Sprintf("there may be %d", most)
		}
		reasons = append(reasons, fmt.Sprintf("%s stands by (%s)", stay[i].Name, why))
		stay = slices.Delete(stay, i, i+1)
	}
	for _, v := range in[:max(0, min(size-len(stay), len(in)))] {
		stay = append(stay, v)
		reasons = append(reasons, string(v.Name)+" in")
	}
	slices.SortFunc(stay, vote.Elector.Compare)
	if slices.Equal(stay, e.Voters) || !decides(&vote.Electorate{Voters: stay}, m.well) {
		return nil, "" // with a majority of the new voters away, the joint electorate could decide nothing, not even its own end (found by seed 3)
	}
	return stay, strings.Join(reasons, ", ")
}

// most is how large the electorate may be: what the most modest of those who are there allows for. Were each to go by its own limit, one would
// vote out for ever whom another votes in; and so it would be if those who stand by didn't count.
func (m *Machine) most() int {
	most := m.cfg.MaxVoters
	for _, o := range m.others {
		if m.recent(o) && o.told.most > 0 {
			most = min(most, o.told.most)
		}
	}
	return most
}

// well reports whether a voter is there and can take part in a change.
func (m *Machine) well(v vote.Elector) bool {
	if v == m.Elector() {
		return true
	}
	o := m.others[v.Name]
	return o != nil && m.recent(o) && o.told.dir == v.Dir && !o.told.stuck && o.copied != v.Dir
}

// leastWanted returns which voter stands by where one must: one that doesn't answer, or the last by name, but not ourselves.
func (m *Machine) leastWanted(voters []vote.Elector) int {
	last := len(voters) - 1
	for i := last; i >= 0; i-- {
		if o := m.others[voters[i].Name]; voters[i] != m.Elector() && (o == nil || !m.recent(o)) {
			return i
		}
	}
	if voters[last] == m.Elector() {
		last--
	}
	return last
}
