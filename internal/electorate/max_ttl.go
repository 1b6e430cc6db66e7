package electorate

import (
	"cmp"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The maximum TTL is decided with the electorate, and a change of the maximum TTL is a change of
// the electorate with the same voters: see [vote.Electorate.GrantLimit]. So an operator configures
// the nodes with another value one after the other, and the mesh changes once a majority of the
// voters is configured with the new value.
//
// A mesh with a founder of a version from before 2026-11-25 has no decided value: all nodes are
// configured with the same value, and a node with another value is refused.

// maxTTL returns how long the promises of a voter may last, under the newest known electorate.
func (m *stateLayer) maxTTL() time.Duration { return m.state.Electorate.QuietTime(m.cfg.MaxTTL) }

// wantedMaxTTL returns the maximum TTL of the next electorate: the value that a majority of the
// voters is configured with, or else the decided value; zero if none was decided.
func (m *Machine) wantedMaxTTL() time.Duration {
	e := &m.state.Electorate
	if e.MaxTTL == 0 {
		return 0
	}
	return cmp.Or(configured(m, m.cfg.MaxTTL, func(r *report) time.Duration { return r.maxTTL }), e.MaxTTL)
}

// agrees reports whether another founder is configured with this node's maximum TTL, as far as
// reported.
func (m *stateLayer) agrees(o *other) bool {
	return cmp.Or(o.report.maxTTL, m.cfg.MaxTTL) == m.cfg.MaxTTL
}

// pledgedMaxTTL returns the maximum TTL to which this node pledges itself with other founders, and
// zero if another founder of an older version has reported no value. Founders by count may be
// configured with different values, while a new configuration is rolled out, or may have known an
// electorate with another value before giving up the electorate. The longest value counts: an
// earlier mesh may have granted as much, and the founders are quiet for as long.
func (m *contactLayer) pledgedMaxTTL(founders []vote.Elector) time.Duration {
	longest := max(m.cfg.MaxTTL, m.longest.value)
	for _, v := range founders {
		if v == m.Elector() {
			continue
		}
		r := &m.others[v.Name].report
		if r.maxTTL == 0 {
			return 0
		}
		longest = max(longest, r.maxTTL, r.pledgeMaxTTL)
	}
	return longest
}

// longestReported returns the longest maximum TTL known to this node, of the decided values that
// may still matter and all values reported as configured; zero without a decided value.
func (m *contactLayer) longestReported() time.Duration {
	e := &m.state.Electorate
	if e.MaxTTL == 0 {
		return 0
	}
	longest := max(e.MaxTTL, e.OldMaxTTL, m.cfg.MaxTTL, m.longest.value)
	for _, o := range m.sorted() {
		longest = max(longest, o.report.maxTTL)
	}
	return longest
}

// isForeignTTL reports whether another node's message tells of an electorate that has decided no
// maximum TTL, while both nodes are configured with different ones: then this node doesn't know for
// how long the voters grant.
func (m *stateLayer) isForeignTTL(e *vote.Consensus) bool {
	return e.Electorate.MaxTTL == 0 && e.MaxTTL != 0 && e.MaxTTL != m.cfg.MaxTTL
}
