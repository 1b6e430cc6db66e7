package electorate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// recoveryStep is the number of versions to skip when an operator recovers the electorate: enough
// to pass every version that the lost voters may have decided.
const recoveryStep = 1 << 20

// RecoveredBetween reports whether an operator's recovery, and not only decisions of voters, lies
// between two versions. The version before the recovery may be zero, that is, no electorate: a
// newly started node can be named before storing any version.
func RecoveredBetween(from, to uint64) bool { return from/recoveryStep != to/recoveryStep }

// ErrNotLost reports that a majority of the voters is reachable; there is nothing to recover.
var ErrNotLost = errors.New("a majority of the voters answers")

// Recover recovers the electorate with the named nodes, this node among them, as the voters, when
// an operator asserts the permanent loss of a majority of the voters. Recover asks no other node:
// if the lost voters come back, or another operator calls Recover elsewhere, there are two
// electorates.
//
// The recovered electorate has the longest maximum TTL known to this node: the lost voters may have
// decided and granted this value without the knowledge of this node.
func (m *Machine) Recover(now vote.Now, names []vote.NodeID, minToken vote.Token) error {
	m.begin(now)
	e := &m.state.Electorate
	if m.byCount() {
		return fmt.Errorf("the mesh is born by count (Expect), and heals by itself: processes that see no majority for %v give the electorate up, and found another", AbandonAfter(m.maxTTL()))
	}
	if !m.Trusted() {
		return errors.New(m.distrusted)
	}
	if m.cfg.Frozen {
		return errors.New(frozenText)
	}
	if e.Version == 0 {
		return errors.New("this node knows of no electorate; start the founders with Bootstrap, " +
			"or let this node reach a node of the mesh")
	}
	// In a joint electorate the old voters count: without the new ones they are restored.
	if majority(e.Deciding(), func(v vote.Elector) bool {
		o := m.others[v.Name]
		return v == m.Elector() || o != nil && m.recent(o) && o.report.dir == v.Dir
	}) {
		return ErrNotLost
	}
	next := vote.Electorate{Version: (e.Version/recoveryStep+1)*recoveryStep + 1, Lineage: e.Lineage, MinToken: max(e.MinToken, min(minToken, vote.MaxMinToken)), Most: e.Most, MaxTTL: m.longestReported()}
	var missing, unfit []string
	for _, name := range names {
		switch o := m.others[name]; {
		case name == m.cfg.Self.Node:
			next.Voters = append(next.Voters, m.Elector())
		case o == nil || !m.recent(o) || o.report.dir == 0:
			missing = append(missing, string(name))
		case o.report.stuck || o.copied == o.report.dir:
			unfit = append(unfit, string(name))
		default:
			next.Voters = append(next.Voters, vote.Elector{Name: name, Dir: o.report.dir})
		}
	}
	slices.SortFunc(next.Voters, vote.Elector.Compare)
	switch {
	case len(missing) > 0:
		return fmt.Errorf("this node is not in touch with %s; name only nodes that are up and have a state directory", strings.Join(missing, ", "))
	case len(unfit) > 0:
		return fmt.Errorf("the state directory of %s can't be written, or is an old copy; name only nodes that can vote", strings.Join(unfit, ", "))
	case m.cannotSave() != "":
		return fmt.Errorf("%s; call Recover on a node that can vote", m.cannotSave())
	case !slices.Contains(next.Voters, m.Elector()):
		return fmt.Errorf("this node, %s, must be among the voters: call Recover on a node that is",
			m.cfg.Self.Node)
	}
	if err := next.Check(); err != nil {
		return err
	}
	m.adopt(&next)
	for _, c := range m.connections() {
		m.sendElectorate(c)
	}
	m.move()
	m.finish()
	return nil
}
