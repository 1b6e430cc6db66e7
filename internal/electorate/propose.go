package electorate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Propose makes one attempt to have the electorate changed to the given voters, whatever gossip says and however many they are. It fails where this
// node can make none now. That it doesn't fail says nothing about what will be decided: another attempt may win, and one that gets no answers is
// given up after a quarter of a maximum TTL. Whoever still wants the change then proposes it again.
func (m *Machine) Propose(now vote.Now, target []vote.Elector) error {
	m.begin(now)
	e := &m.state.Electorate
	switch {
	case !m.member():
		return errors.New("this node doesn't vote: propose it on one that does")
	case e.Joint():
		return fmt.Errorf("electorate %d is being changed already: wait for the end of that", e.Version)
	case m.stored.Electorate.Version != e.Version || m.stuck != "":
		return fmt.Errorf("electorate %d isn't stored here yet", e.Version)
	case m.race != nil:
		return errors.New("this node has an attempt under way")
	}
	target = slices.SortedFunc(slices.Values(target), vote.Elector.Compare)
	if slices.Equal(target, e.Voters) {
		return errors.New("those are the voters already")
	}
	next := vote.Electorate{Version: e.Version + 1, Lineage: e.Lineage, Voters: target, Old: e.Voters, Floor: e.Floor}
	if err := Follows(e, &next); err != nil {
		return err
	}
	m.run(next)
	m.finish()
	return nil
}
