package electorate

import (
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Unsettled returns why no voter should be stopped on purpose now, as far as only the electorate
// knows; empty if there is no such reason. Each of two voters that leave may be spared for itself,
// but not both at once. And a node that has just started can't take the place of a voter yet.
func (m *Machine) Unsettled(now vote.Now) string {
	m.begin(now)
	e := &m.state.Electorate
	if e.Joint() {
		return "the electorate is being changed"
	}
	if m.byCount() && len(e.Voters) > 0 && len(e.Voters) < m.cfg.MinVoters && m.awaitsVoter() {
		return "the electorate has fewer voters than MinVoters until another process is voted in" // withoutRestartedName
	}
	for _, o := range m.sorted() {
		ends := o.report.leaving && m.recent(o)
		switch {
		case ends && e.Has(vote.Elector{Name: o.name, Dir: o.report.dir}):
			if n := len(e.Voters); n <= 2 {
				return fmt.Sprintf("the voter %s is leaving, or is restarted with NonVoting, and stays one of %d voters "+
					"until another node takes its place: start another that votes", o.name, n)
			}
			return "the voter " + string(o.name) + " is leaving"
		case ends && m.isBounded() && o.report.dir != 0:
			// Without a register only so many processes may run at once, and the ending process
			// counts.
			return "the process " + string(o.name) + " hasn't ended yet"
		}
	}
	if !m.Votes() && !m.leaving && m.now.Slow.Sub(m.started) < SettleAfter(m.maxTTL()) {
		return "this node has just started, and can't take the place of a voter yet"
	}
	if !m.Votes() && !m.leaving && m.cannotRegister() {
		return m.registerTrouble()
	}
	return ""
}

// awaitsVoter reports whether this node or another may be voted in before long.
func (m *Machine) awaitsVoter() bool {
	if m.cfg.MayFound && !m.Votes() && !m.leaving && !m.cannotRegister() {
		return true
	}
	for _, o := range m.others { // in any order
		if m.mayStandBy(o) {
			return true
		}
	}
	return false
}

// isBounded reports whether the promise of the mesh rests on a bound of the processes that run at
// once: the mesh is born by count and has no register.
func (m *stateLayer) isBounded() bool { return m.byCount() && m.cfg.RegisterTerm == 0 }
