package electorate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Status is how the electorate looks from one node.
type Status struct {
	Electorate vote.Electorate // the newest that is known
	Stored     uint64          // the version that is in this node's directory
	Dir        vote.Dir        // this node's
	Voter      bool            // this node votes
	StandBy    []vote.NodeID   // who could be voted in, if there were room or need
	Stays      string          // why this node, which wants to leave, can't be voted out as things are; empty if it can
	Change     string          // who is being voted in or out, and why it waits; empty if nothing changes
	Trouble    string          // why this node can't take part in changes; empty if it can
	Lost       string          // why no majority may ever come back; empty if one is there, or may well be
}

// Status tells how the electorate looks from this node.
func (m *Machine) Status(now vote.Now) Status {
	m.begin(now)
	e := &m.state.Electorate
	s := Status{Electorate: *e, Stored: m.stored.Electorate.Version, Dir: m.state.Dir, Voter: m.member()}
	for _, o := range m.sorted() {
		if m.member() && m.standby(o) && !e.Has(vote.Elector{Name: o.name, Dir: o.dir}) {
			s.StandBy = append(s.StandBy, o.name)
		}
	}
	s.Change, s.Lost, s.Stays = m.change(), m.lost(), m.stays()
	switch {
	case m.distrusted != "":
		s.Trouble = m.distrusted
	case m.stuck != "":
		s.Trouble = "the state directory can't be written: " + m.stuck
	}
	return s
}

// change says what is going on.
func (m *Machine) change() string {
	e := &m.state.Electorate
	switch {
	case e.Version == 0 && m.founding():
		return m.foundingText()
	case e.Version == 0:
		return "no electorate is known: this node waits to meet one that knows it, and to be voted in"
	case e.Joint():
		text := "from " + names(e.Old) + " to " + names(e.Voters)
		if !m.member() {
			return text
		}
		if strings.HasPrefix(m.needed, "back") {
			return m.needed + ": waits for the voters' decision"
		}
		if !m.drain.begun {
			return text + ": waits for majorities of both to go by it; missing: " + m.missing(func(v vote.Elector) bool { return slices.Contains(m.drain.seen, v) })
		}
		if left := Drain(m.cfg.MaxTTL) - m.now.Slow.Sub(m.drain.since); left > 0 {
			return fmt.Sprintf("%s: drains for another %.1fs", text, left.Seconds())
		}
		return text + ": waits for the voters' decision; missing: " + m.missing(func(v vote.Elector) bool { return m.goesBy(v, m.drain.fresh) })
	case m.needed != "":
		return m.needed + ": waits for the voters' decision"
	}
	return ""
}

// missing names the voters of whom something doesn't hold.
func (m *Machine) missing(holds func(vote.Elector) bool) string {
	var lack []vote.Elector
	for _, v := range m.state.Electorate.All() {
		if !holds(v) {
			lack = append(lack, v)
		}
	}
	if len(lack) == 0 {
		return "none"
	}
	return names(lack)
}

func names(voters []vote.Elector) string {
	var all []string
	for _, v := range voters {
		all = append(all, string(v.Name))
	}
	return strings.Join(all, ", ")
}

func (m *Machine) foundingText() string {
	var lack []string
	for _, name := range m.cfg.Founders {
		o := m.others[name]
		switch {
		case name == m.cfg.Self.Node:
		case o == nil || !m.recent(o):
			lack = append(lack, string(name)+" (not reached)")
		case !o.told.founding:
			lack = append(lack, string(name)+" (not told to found)")
		case len(m.state.Pledge) > 0 && !slices.Contains(m.state.Pledge, vote.Elector{Name: name, Dir: o.told.dir}):
			lack = append(lack, string(name)+" (it had another state directory when the founding began: stop all founders, remove their state files, and start them again)")
		}
	}
	for _, name := range m.Wanted() {
		if o := m.others[name]; o != nil && !slices.Contains(m.cfg.Founders, name) && m.mayKnow(o) {
			lack = append(lack, string(name)+" (no founder, but it is there and not reached, and may know of an electorate)")
		}
	}
	switch {
	case len(m.cfg.Founders) == 1 && len(lack) == 0:
		return "it looks for others that may know an electorate, and then founds one alone"
	case len(lack) == 0:
		return "the founders found the electorate"
	}
	return "waits for all founders; missing: " + strings.Join(lack, ", ")
}

// lost says why no majority may ever come back: so many voters have been gone for so long. None may be there for other reasons, which pass. Of a joint
// electorate those count that decide, the old ones: where only the new ones are gone, they go back.
func (m *Machine) lost() string {
	e := &m.state.Electorate
	if e.Version == 0 {
		return ""
	}
	var gone []string
	alive := majority(e.Deciding(), func(v vote.Elector) bool {
		o := m.others[v.Name]
		if v == m.Elector() || o == nil {
			return true
		}
		heard := o.heard
		other := o.firm && o.told.dir != v.Dir // a node of its name is there, and says nothing of this voter
		if other {
			heard = o.since
		}
		away := m.now.Slow.Sub(max(heard, o.since, m.started))
		if o.up && o.told.dir == v.Dir || o.seen == Alive && o.dir == v.Dir || away < FailAfter(m.cfg.MaxTTL) {
			return true
		}
		if other {
			gone = append(gone, fmt.Sprintf("%s, which is back with another state directory, for %v", v.Name, away.Round(time.Second)))
			return false
		}
		gone = append(gone, fmt.Sprintf("%s for %v", v.Name, away.Round(time.Second)))
		return false
	})
	if alive {
		return ""
	}
	if !slices.ContainsFunc(m.sorted(), func(o *other) bool { return o.firm }) {
		return fmt.Sprintf("this node has reached no other since it started, so no lock can be granted: check Peers, the network, and whether the others run. Only if a majority of "+
			"electorate %d (%s) is lost for good, an operator must found the electorate again (Refound)", e.Version, names(e.Voters))
	}
	return fmt.Sprintf("a majority of electorate %d (%s) is gone: %s. No lock can be granted until enough of them are back with their state directories. If they are lost for good, "+
		"an operator must found the electorate again (Refound)", e.Version, names(e.Deciding()), strings.Join(gone, ", "))
}
