package electorate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// refoundStep is by how much versions leap when an operator founds the electorate again: above whatever those may have decided who are
// said to be gone for good.
const refoundStep = 1 << 20

// Refounded reports whether an operator's word stands between two versions, and not only decisions of voters. From zero, which is no electorate, it may
// stand as well: a node that has just started can be named before it has stored any other version.
func Refounded(from, to uint64) bool { return from/refoundStep != to/refoundStep }

// ErrNotLost says that a majority of the voters is there, so that there is nothing to found again.
var ErrNotLost = errors.New("a majority of the voters answers")

// Refound makes the named nodes, this one among them, the voters, on an operator's word that a majority of the voters is gone for good. It asks
// nobody: if those who are gone come back, or another operator does the same elsewhere, there are two electorates.
func (m *Machine) Refound(now vote.Now, names []vote.NodeID, floor vote.Token) error {
	m.begin(now)
	e := &m.state.Electorate
	if !m.Trusted() {
		return errors.New(m.distrusted)
	}
	if e.Version == 0 {
		return errors.New("this node knows of no electorate; start the founders with Found, or let it meet a node of the mesh")
	}
	if majority(e.Deciding(), func(v vote.Elector) bool { // of a joint electorate the old voters: without the new ones they go back
		o := m.others[v.Name]
		return v == m.Elector() || o != nil && m.recent(o) && o.told.dir == v.Dir
	}) {
		return ErrNotLost
	}
	next := vote.Electorate{Version: (e.Version/refoundStep+1)*refoundStep + 1, Lineage: e.Lineage, Floor: min(max(e.Floor, floor), vote.MaxToken/2)}
	var missing, unfit []string
	for _, name := range names {
		switch o := m.others[name]; {
		case name == m.cfg.Self.Node:
			next.Voters = append(next.Voters, m.Elector())
		case o == nil || !m.recent(o) || o.told.dir == 0:
			missing = append(missing, string(name))
		case o.told.stuck || o.copied == o.told.dir:
			unfit = append(unfit, string(name))
		default:
			next.Voters = append(next.Voters, vote.Elector{Name: name, Dir: o.told.dir})
		}
	}
	slices.SortFunc(next.Voters, vote.Elector.Compare)
	switch {
	case len(missing) > 0:
		return fmt.Errorf("this node is not in touch with %s; name only nodes that are up and have a state directory", strings.Join(missing, ", "))
	case len(unfit) > 0:
		return fmt.Errorf("the state directory of %s can't be written, or is an old copy; name only nodes that can vote", strings.Join(unfit, ", "))
	case m.stuck != "":
		return fmt.Errorf("the state directory can't be written: %s; call it on a node that can vote", m.stuck)
	case !slices.Contains(next.Voters, m.Elector()):
		return fmt.Errorf("this node, %s, must be among the voters: call it on one that is", m.cfg.Self.Node)
	}
	if err := next.Check(); err != nil {
		return err
	}
	m.adopt(&next)
	for _, c := range m.lines() {
		m.tell(c)
	}
	m.move()
	m.finish()
	return nil
}
