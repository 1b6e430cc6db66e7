package electorate

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// founding reports whether this node waits to found version 1 with the other founders.
func (m *contactLayer) founding() bool {
	return m.cfg.MayFound && m.state.Electorate.Version == 0 && m.Trusted() && (m.byCount() && !m.leaving || slices.Contains(m.cfg.Founders, m.cfg.Self.Node))
}

// found bootstraps version 1, with all founders at once. Each founder pledges its directory to one
// set of founders, once. A founder that has the pledges of the whole set applies the electorate. So
// two founded sets have no directory in common: each founder of an earlier electorate has lost its
// directory since, and was started with Bootstrap again.
func (m *Machine) found() {
	if !m.founding() {
		return
	}
	for _, name := range m.AppendWanted(nil) {
		if o := m.others[name]; o != nil && m.mayKnow(o) {
			return
		}
	}
	if len(m.cfg.Founders) == 1 && m.now.Slow.Sub(m.started) < SettleAfter(m.maxTTL()) {
		// A single founder first looks for other nodes, if there are any: its directory may have
		// been lost.
		return
	}
	founders := []vote.Elector{m.Elector()}
	for _, name := range m.cfg.Founders {
		if name == m.cfg.Self.Node {
			continue
		}
		o := m.others[name]
		if o == nil || !m.recent(o) || !o.report.founding || o.report.dir == 0 {
			return // all founders, not most: a missing founder may know of an electorate
		}
		founders = append(founders, vote.Elector{Name: name, Dir: o.report.dir})
	}
	slices.SortFunc(founders, vote.Elector.Compare)
	if len(m.state.Pledge) == 0 {
		if most, maxTTL := m.pledgeable(founders); most > 0 {
			m.state.Pledge, m.state.PledgeMaxVoters, m.state.PledgeMaxTTL, m.pending = founders, most, maxTTL, true
		}
		return
	}
	if !slices.Equal(m.stored.Pledge, founders) {
		return
	}
	for _, v := range founders {
		if v == m.Elector() {
			continue
		}
		if o := m.others[v.Name]; !slices.Equal(o.report.pledge, founders) || o.report.pledgeMaxVoters != m.stored.PledgeMaxVoters || o.report.pledgeMaxTTL != m.stored.PledgeMaxTTL {
			return
		}
	}
	m.adopt(&vote.Electorate{Version: 1, Lineage: lineage(founders), Voters: founders, Most: m.stored.PledgeMaxVoters, MaxTTL: m.stored.PledgeMaxTTL})
}

// pledgeable returns the limit on the electorate that these founders found, and its maximum TTL: as
// in another founder's pledge, or else as all of them are configured; the limit is zero where they
// differ. Both are part of the pledge, so a founder restarted with another value in between founds
// nothing else.
func (m *contactLayer) pledgeable(founders []vote.Elector) (most int, maxTTL time.Duration) {
	most = m.cfg.MaxVoters
	others := slices.DeleteFunc(slices.Clone(founders), func(v vote.Elector) bool { return v == m.Elector() })
	if slices.ContainsFunc(others, func(v vote.Elector) bool { return !m.agrees(m.others[v.Name]) }) {
		return 0, 0
	}
	for _, v := range others {
		o := m.others[v.Name]
		if slices.Equal(o.report.pledge, founders) && o.report.pledgeMaxVoters > 0 {
			return o.report.pledgeMaxVoters, o.report.pledgeMaxTTL
		}
		if o.report.most > 0 && o.report.most != m.cfg.MaxVoters {
			most = 0
		}
	}
	return most, m.pledgedMaxTTL(founders)
}

// mayKnow reports whether another node is alive and may know of an electorate. The founding waits
// until such a node has reported to know no electorate.
func (m *contactLayer) mayKnow(o *other) bool {
	return o.seen == vote.Alive && (!m.recent(o) || o.report.version != 0)
}

// lineage returns the identifier of a founding.
func lineage(founders []vote.Elector) uint64 {
	h := fnv.New64a()
	for _, v := range founders {
		_, _ = h.Write([]byte(v.Name))
		var b [9]byte
		for i := range 8 {
			b[i+1] = byte(v.Dir >> (8 * i))
		}
		_, _ = h.Write(b[:])
	}
	return h.Sum64() | 1
}
