package sim

import (
	"testing"

	"github.com/lockmesh/lockmesh/internal/electorate"
)

// TestFault75AGrayVoterIsReplaced has gossip see c alive, while TCP finds no way between c and any
// other node. A standby takes the seat, b dies after the change, and service goes on.
func TestFault75AGrayVoterIsReplaced(t *testing.T) {
	s := mesh(t, 3, []string{"d", "y"}, Dynamic{MaxVoters: 3})
	s.Run(2 * sceneTTL)
	s.dynamic.Gray("c", "a", "b", "d", "y")
	s.unchanged(electorate.FailAfter(sceneTTL))
	s.voting(changeTime()+2*sceneTTL, "a", "b", "d")
	s.serves("y")
	s.PowerOff("b")
	s.serves("y")
	s.dynamic.MendGray("c", "a", "b", "d", "y")
	s.voting(2*replaceTime(), "a", "c", "d")
	s.serves("c")
}

// TestFault75AGrayNodeIsNotVotedIn has gossip see d and e alive. No node reaches d, and only a
// reaches e: neither is voted in, since the voters couldn't decide anything with such a node.
func TestFault75AGrayNodeIsNotVotedIn(t *testing.T) {
	s := mesh(t, 3, []string{"d", "e", "y"}, Dynamic{MaxVoters: 5}, "d", "e")
	s.dynamic.Gray("d", "a", "b", "c", "e", "y")
	s.dynamic.Gray("e", "b", "c", "d", "y")
	s.Start("d")
	s.Start("e")
	s.unchanged(10 * sceneTTL)
	s.serves("y")
	s.dynamic.MendGray("d", "a", "b", "c", "y", "e")
	s.dynamic.MendGray("e", "b", "c", "y", "d")
	s.voting(settles()+changeTime()+2*sceneTTL, "a", "b", "c", "d", "e")
}

// TestFault75OneThatAMajorityReachesKeepsItsVote cuts a, the proposer of changes as the first by
// name, off from c, and a's gossip takes c for dead. Since b and c reach each other, c goes on
// voting.
func TestFault75OneThatAMajorityReachesKeepsItsVote(t *testing.T) {
	s := mesh(t, 3, []string{"d", "y"}, Dynamic{MaxVoters: 3})
	s.Run(2 * sceneTTL)
	s.Cut("c", "a")
	s.unchanged(10 * sceneTTL)
	s.serves("y")
}
