package engine

import (
	"github.com/lockmesh/lockmesh/quorum"
)

// voterStates are the voters' states at the last update, in order of names.
type voterStates []quorum.VoterState

// update stores the present states, in order of names, and returns the changes.
func (old *voterStates) update(voters []quorum.VoterState) (changes []VoterChanged) {
	was := *old
	for i := range voters {
		v := &voters[i]
		for len(was) > 0 && was[0].Name < v.Name {
			changes = append(changes, goneVoter(&was[0]))
			was = was[1:]
		}
		c := VoterChanged{Voter: v.Name, Has: true, To: *v}
		if len(was) > 0 && was[0].Name == v.Name {
			c.Had, c.From = true, was[0].State
			was = was[1:]
		}
		if !c.Had || c.From != v.State {
			changes = append(changes, c)
		}
	}
	for i := range was {
		changes = append(changes, goneVoter(&was[i]))
	}
	*old = append((*old)[:0], voters...)
	return changes
}

// goneVoter is the change of a voter that is none any more.
func goneVoter(v *quorum.VoterState) VoterChanged {
	return VoterChanged{Voter: v.Name, Had: true, From: v.State}
}
