package electorate

import (
	"fmt"

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
	for _, v := range e.Voters {
		most := m.configured(v)
		if most > 0 && majority(e.Voters, func(w vote.Elector) bool { return m.configured(w) == most }) {
			return most
		}
	}
	if e.Most > 0 {
		return e.Most
	}
	return len(e.Voters)
}

// configured returns the limit that a voter is configured with; zero without a recent report.
func (m *Machine) configured(v vote.Elector) int {
	if v == m.Elector() {
		return m.cfg.MaxVoters
	}
	if o := m.others[v.Name]; o != nil && m.recent(o) && o.told.dir == v.Dir {
		return o.told.most
	}
	return 0
}

// differs describes how this node's configured limit differs from the decided limit; empty if they
// are equal.
func (m *Machine) differs() string {
	e := &m.state.Electorate
	if e.Most == 0 || e.Most == m.cfg.MaxVoters {
		return ""
	}
	return fmt.Sprintf("MaxVoters is %d on this node, and %d by decision of the voters, which counts: configure the same everywhere. "+
		"It changes once a majority of the voters is configured with another value", m.cfg.MaxVoters, e.Most)
}
