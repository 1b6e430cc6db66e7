package electorate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Propose starts one ballot to change the electorate to the given voters, regardless of gossip and
// of the number of voters. Propose fails when this node can't start a ballot now. Success doesn't
// guarantee the change: another ballot may win, and a ballot without answers is given up after one
// maximum TTL (raceTime). The caller may then call Propose again.
func (m *Machine) Propose(now vote.Now, target []vote.Elector) error {
	m.begin(now)
	e := &m.state.Electorate
	switch {
	case m.cfg.Frozen:
		return errors.New(frozenText)
	case !m.member():
		return errors.New("this node doesn't vote: propose the change on a node that does")
	case e.Joint():
		return fmt.Errorf("electorate %d is being changed already: wait for the end of that", e.Version)
	case m.stored.Electorate.Version != e.Version || m.cannotSave() != "":
		return fmt.Errorf("electorate %d isn't stored here yet", e.Version)
	case m.race != nil:
		return errors.New("this node has a ballot under way")
	}
	target = slices.SortedFunc(slices.Values(target), vote.Elector.Compare)
	if slices.Equal(target, e.Voters) {
		return errors.New("those are the voters already")
	}
	next := m.joint(target, e.Most, e.MaxTTL)
	if err := CheckSuccessor(e, &next); err != nil {
		return err
	}
	m.run(next)
	m.finish()
	return nil
}
