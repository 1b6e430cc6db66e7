package electorate

import (
	"fmt"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Leave has this node voted out, if the other nodes can do without this voter. A frozen voter stays
// on, as a voter of a fixed list does.
func (m *Machine) Leave(now vote.Now) {
	m.begin(now)
	if m.cfg.Frozen && m.Votes() {
		return
	}
	if !m.leaving {
		m.leaving, m.leftAt = true, m.now.Slow
	}
	m.pollAt = m.now.Slow
	m.move()
	m.finish()
}

// stays returns why this leaving node can't be voted out at present, so that Leave needn't wait.
func (m *contactLayer) stays() string {
	e := &m.state.Electorate
	switch {
	case !m.leaving || !m.Votes():
		return ""
	case m.noMajoritySince != 0 && m.now.Slow.Sub(m.noMajoritySince) >= m.maxTTL():
		return fmt.Sprintf("too few of the voters %s are reachable to decide the change",
			names(e.Deciding()))
	case e.Joint():
		return ""
	}
	r := m.roll()
	others := len(r.stay) + len(r.in)
	switch {
	// Of more voters than the minimum, some leaving voters can be voted out, and the other leaving
	// voters know later. An even minimum gains nothing by a voter more, and may keep this voter.
	case m.byCount() && len(e.Voters) > 1 && len(e.Voters) <= m.minimum()|1 &&
		len(r.in) == 0 && !m.isEnough(len(r.stay), 0):
		if m.standbySoon() || m.mayReplace() {
			return ""
		}
		// An orchestrator without a surge starts the replacement once this node has begun to leave.
		// Where all voters leave there is none; a voter that has crashed stays no more than those,
		// though its seat is in doubt for a while. Where the voters that stay can't decide anything
		// without this node, Leave goes on waiting for as long as the caller allows.
		decide := majority(e.Voters, func(v vote.Elector) bool { return slices.Contains(r.stay, v) && m.healthy(v) })
		lives := func(v vote.Elector) bool {
			o := m.others[v.Name]
			return m.healthy(v) || o != nil && o.seen == vote.Alive // perhaps the link is down
		}
		// A node that has lost its links sees no other voter live, and none leave.
		leaves := func(v vote.Elector) bool {
			o := m.others[v.Name]
			return o != nil && (o.report.leaving || o.seen == vote.Left)
		}
		wait := slices.ContainsFunc(r.stay, lives) || !slices.ContainsFunc(e.Voters, leaves)
		if wait && (!decide || m.now.Slow.Sub(m.leftAt) < m.maxTTL()) {
			return ""
		}
		// A process that starts later takes the seat, as the process takes an absent voter's seat.
		return fmt.Sprintf("no other process is there to take its place, and the electorate keeps at "+
			"least %d voters (MinVoters)", m.minimum())
	case others >= 2 || len(e.Voters) == 1 && others > 0:
		return ""
	case len(e.Voters) == 1:
		return "it is the only voter, and no node is on standby"
	case len(e.Voters) == 2:
		return "it is one of two voters, and an electorate doesn't shrink to one by itself"
	case len(r.absent) > 0:
		return fmt.Sprintf("of the voters %s are away and keep their seats, and without this node the others are too few to decide anything", names(r.absent))
	}
	return "" // the other voters leave as well, and go first
}

// mayReplace reports whether there is a live process without a vote that may be on standby before
// long: the process may wait to be settled, or to hear of the newest electorate. One that isn't on
// standby after several MaxTTL may be out of reach of the other voters. One that started more than
// a MaxTTL after this node began to leave isn't its replacement.
func (m *contactLayer) mayReplace() bool {
	for _, o := range m.others { // in any order
		if m.mayStandBy(o) && o.since.Sub(m.leftAt) <= SettleAfter(m.maxTTL()) && m.now.Slow.Sub(max(o.since, m.leftAt)) < 3*SettleAfter(m.maxTTL()) {
			return true
		}
	}
	return false
}
