package electorate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Status is the state of the electorate as seen by one node.
type Status struct {
	Electorate vote.Electorate // the newest known electorate
	Stored     uint64          // the version in this node's directory
	Dir        vote.Dir        // this node's directory
	name       vote.NodeID     // this node's name
	Voter      bool            // this node votes
	Standby    []vote.NodeID   // the nodes that could be voted in, given room or need
	// Stays is why this leaving node can't be voted out at present, or empty.
	Stays string
	// Change is who is being voted in or out, and why the change waits; empty without a change.
	Change string
	// Differs is how this node's MaxVoters or MaxTTL differs from the decided value; empty if
	// equal.
	Differs string
	Trouble string // why this node can't take part in changes, or empty
	// Lost is why no majority may ever come back; empty if a majority is or may be reachable.
	Lost string
}

// IsVoter reports whether the voters of the electorate include this node, by its own identity.
func (s *Status) IsVoter() bool {
	return s.Electorate.Has(vote.Elector{Name: s.name, Dir: s.Dir})
}

// Status returns the state of the electorate as seen by this node.
func (m *Machine) Status(now vote.Now) Status {
	m.begin(now)
	e := &m.state.Electorate
	s := Status{Electorate: *e, Stored: m.stored.Electorate.Version, Dir: m.state.Dir, name: m.cfg.Self.Node, Voter: m.Trusted() && m.Votes()}
	for _, o := range m.sorted() {
		if m.member() && m.standby(o) && !e.Has(vote.Elector{Name: o.name, Dir: o.dir}) {
			s.Standby = append(s.Standby, o.name)
		}
	}
	s.Change, s.Lost, s.Stays, s.Differs = m.change(), m.lost(), m.stays(), m.differs()
	s.Trouble = m.cannotSave()
	if text := m.registerTrouble(); text != "" {
		s.Trouble = text
	}
	if m.distrusted != "" {
		s.Trouble = m.distrusted
	}
	return s
}

// change describes the change under way.
func (m *Machine) change() string {
	e := &m.state.Electorate
	switch {
	case e.Version == 0 && m.byCount() && m.founding():
		return m.birthText()
	case e.Version == 0 && m.founding():
		return m.foundingText()
	case e.Version == 0 && m.leaving:
		return "no electorate is known: this node waits to reach a node that knows it"
	case e.Version == 0:
		return "no electorate is known: this node waits to reach a node that knows it, and to be " +
			"voted in"
	case e.Joint():
		text := "from " + names(e.Old) + " to " + names(e.Voters)
		if !m.member() {
			return text
		}
		if strings.HasPrefix(m.needed, "back") {
			return m.needed + ": waits for the voters' decision"
		}
		if !m.drain.begun {
			return text + ": waits for majorities of both to apply it; missing: " +
				m.missing(func(v vote.Elector) bool { return slices.Contains(m.drain.seen, v) })
		}
		if m.isRegisterBehind() {
			return text + ": waits until the register shows the longer MaxTTL"
		}
		if left := Drain(m.maxTTL()) - m.now.Slow.Sub(m.drain.since); left > 0 {
			return fmt.Sprintf("%s: drains for another %.1fs", text, left.Seconds())
		}
		return text + ": waits for the voters' decision; missing: " + m.missing(func(v vote.Elector) bool { return m.applies(v, m.drain.fresh) })
	case m.needed != "":
		return m.needed + ": waits for the voters' decision"
	case m.cfg.Frozen:
		return m.frozenChange()
	}
	return ""
}

// missing names the voters for which holds is false.
func (m *stateLayer) missing(holds func(vote.Elector) bool) string {
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

func (m *contactLayer) foundingText() string {
	var lack []string
	for _, name := range m.cfg.Founders {
		o := m.others[name]
		switch {
		case name == m.cfg.Self.Node:
		case o == nil || !m.recent(o):
			lack = append(lack, string(name)+" (not reached)")
		case !o.report.founding:
			lack = append(lack, string(name)+" (started without Bootstrap)")
		case len(m.state.Pledge) == 0 && len(o.report.pledge) == 0 && o.report.most != 0 && o.report.most != m.cfg.MaxVoters:
			lack = append(lack, fmt.Sprintf("%s (its MaxVoters is %d, and %d on this node: configure the same)", name, o.report.most, m.cfg.MaxVoters))
		case len(m.state.Pledge) == 0 && len(o.report.pledge) == 0 && !m.agrees(o):
			lack = append(lack, fmt.Sprintf("%s (its MaxTTL is %v, and %v on this node: configure the same)", name, o.report.maxTTL, m.cfg.MaxTTL))
		case len(m.state.Pledge) > 0 && !slices.Contains(m.state.Pledge, vote.Elector{Name: name, Dir: o.report.dir}):
			lack = append(lack, string(name)+" (it had another state directory when the bootstrap "+
				"began: stop all founders, remove their state files, and start them again)")
		}
	}
	wanted := m.AppendWanted(nil)
	slices.Sort(wanted)
	for _, name := range slices.Compact(wanted) {
		if o := m.others[name]; o != nil && !slices.Contains(m.cfg.Founders, name) && m.mayKnow(o) {
			lack = append(lack, string(name)+" (no founder, but alive and not reached, and may "+
				"know of an electorate)")
		}
	}
	switch {
	case len(m.cfg.Founders) == 1 && len(lack) == 0:
		return "this node looks for nodes that may know an electorate, and then bootstraps one " +
			"alone"
	case len(lack) == 0:
		return "the founders bootstrap the electorate"
	}
	return "waits for all founders; missing: " + strings.Join(lack, ", ")
}

// lost returns why no majority may ever come back: the lost voters, and for how long. A majority
// may also be unreachable for passing reasons. In a joint electorate the deciding voters count, the
// old voters: where only the new voters are gone, the old voters are restored.
func (m *contactLayer) lost() string {
	e := &m.state.Electorate
	if e.Version == 0 || m.cfg.Frozen { // a frozen node asks no node, and fixed nodes tell nothing
		return ""
	}
	var gone []string
	alive := majority(e.Deciding(), func(v vote.Elector) bool {
		t, o := m.tie(v), m.others[v.Name]
		if v == m.Elector() {
			return true
		}
		absence := m.now.Slow.Sub(t.last)
		switch {
		case absence < FailAfter(m.maxTTL()):
			return true
		case o != nil && o.up && o.spoke && o.report.dir == v.Dir:
			return true
		case o != nil && o.seen == vote.Alive && o.dir == v.Dir && !t.replaced:
			return true
		// The old directory is lost until the next report of the old directory; contact with the
		// new directory changes nothing.
		case t.replaced:
			how := "is back with another state directory"
			if m.byCount() {
				how = "is another process of its name now"
			}
			gone = append(gone, fmt.Sprintf("%s, which %s, for %v", v.Name, how, absence.Round(time.Second)))
		default:
			gone = append(gone, fmt.Sprintf("%s for %v", v.Name, absence.Round(time.Second)))
		}
		return false
	})
	if alive {
		return ""
	}
	if m.byCount() {
		left := max(AbandonAfter(m.maxTTL())-m.now.Slow.Sub(m.noMajoritySince), 0)
		return fmt.Sprintf("a majority of electorate %d (%s) is gone: %s. No lock can be granted "+
			"until enough of them are back, or until this process, in %.1fs, gives the electorate "+
			"up, and founds or joins another", vote.VersionNumber(e.Version), names(e.Deciding()), strings.Join(gone, ", "), left.Seconds())
	}
	if !slices.ContainsFunc(m.sorted(), func(o *other) bool { return o.confirmed }) {
		return fmt.Sprintf("this node has reached no other node since it started, so no lock can "+
			"be granted: check Peers, the network, and whether the other nodes run. Only if a "+
			"majority of electorate %d (%s) is lost for good, an operator must name new voters "+
			"(Recover)", e.Version,
			names(e.Voters))
	}
	gist := fmt.Sprintf("a majority of electorate %d (%s) is gone: %s. No lock can be granted "+
		"until enough of them are back with their state directories", e.Version,
		names(e.Deciding()), strings.Join(gone, ", "))
	if isFirstOfList(m.state.Mesh, e) {
		// Fixed nodes are refused, and so look like lost ones; but they may be granting locks.
		return gist + ". They may be running with the fixed list of voters: then restart them with " +
			"FromFixed, and don't recover. Only if they are stopped for good, an operator must " +
			"name new voters (Recover)"
	}
	return gist + ". If they are lost for good, an operator must name new voters (Recover)"
}
