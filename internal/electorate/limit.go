package electorate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The limit on the electorate's size is decided with the electorate, rather than by any single
// node. Otherwise a standby configured with 3, among seven voters configured with 7, would have
// four of them voted out.

// mostVoters returns the limit on the next electorate's size: the value that a majority of the
// voters is configured with, or else the decided value. Where none was decided (by versions from
// before 2026-11-22) and the voters differ, the limit is the present number of voters.
func (m *Machine) mostVoters() int {
	e := &m.state.Electorate
	if most := configured(m, m.cfg.MaxVoters, func(r *report) int { return r.most }); most > 0 {
		return most
	}
	if e.Most > 0 {
		return e.Most
	}
	return len(e.Voters)
}

// configured returns the value of a setting configured on a majority of the voters; zero without
// such a value, or if too few voters have reported recently. own is this node's value, and reported
// returns another node's value from the node's report.
func configured[T int | time.Duration](m *Machine, own T, reported func(*report) T) T {
	voters := m.state.Electorate.Voters
	of := func(v vote.Elector) T {
		if v == m.Elector() {
			return own
		}
		if o := m.others[v.Name]; o != nil && m.recent(o) && o.report.dir == v.Dir {
			return reported(&o.report)
		}
		return 0
	}
	for _, v := range voters {
		if d := of(v); d > 0 && majority(voters, func(w vote.Elector) bool { return of(w) == d }) {
			return d
		}
	}
	return 0
}

// differs describes how this node's settings differ from the decided ones; empty if they are equal.
func (m *stateLayer) differs() string {
	e := &m.state.Electorate
	ttl := differing("MaxTTL", m.cfg.MaxTTL, e.MaxTTL)
	if len(ttl) > 0 && m.cfg.Expect > 1 && m.cfg.RegisterTerm == 0 {
		ttl[0] += ". In a mesh with Expect and no Register a lock may have two holders while MaxTTL differs: " +
			"set a Register, or see docs/changing-maxttl.md"
	}
	return strings.Join(slices.Concat(differing("MaxVoters", m.cfg.MaxVoters, e.Most), ttl), "; ")
}

// differing describes how a setting of this node differs from the decided value, which is zero if
// none was decided; nil if they are equal.
func differing[T int | time.Duration](name string, own, decided T) []string {
	if decided == 0 || decided == own {
		return nil
	}
	return []string{fmt.Sprintf("%s is %v on this node, and %v by decision of the voters, which counts: configure the same everywhere. "+
		"It changes once a majority of the voters is configured with another value", name, own, decided)}
}

// minimum returns the configured minimum of voters. An electorate doesn't shrink to a single voter
// by itself.
func (m *stateLayer) minimum() int {
	if m.byCount() {
		return max(m.cfg.MinVoters, 2)
	}
	return m.cfg.MinVoters
}

// isLargeEnough reports whether a majority of so many voters is as large as one of the configured
// minimum: the promise of a mesh that is born by count rests on the size of the majorities.
func (m *stateLayer) isLargeEnough(voters int) bool { return voters/2 >= m.cfg.MinVoters/2 }
