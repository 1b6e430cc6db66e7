package node

import (
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Unsettled returns why no further voter should be stopped on purpose now; empty if a voter may be
// stopped. A voter may be stopped if all of these conditions hold:
//
//   - The electorate is known, and isn't being changed: in a joint electorate either half may have
//     no voter to spare. No voter is leaving, and this node, if it is on standby, could take the
//     place of a voter.
//   - This node's own voter counts, if there is one, and the other voters know: otherwise, after
//     the stop of another voter, some nodes would have a majority that they can't count yet.
//   - No voter is quiet. A quiet voter will count soon, and is known to be back; but a quiet voter
//     is still missing, and other nodes may see fewer counting voters than this node.
//   - A majority counts even without any single counting voter. One or two voters tolerate no
//     failure, so in a small electorate all voters must count, and stopping a voter stops locks
//     until the voter is back.
func (n *Node) Unsettled(now vote.Now) string {
	if !n.Electorate().Known() {
		return "no electorate is known"
	}
	// This check comes first since it costs next to nothing while a caller waits for a voter that
	// has just started.
	if n.Quiet() > 0 {
		return "this node's own voter doesn't count yet"
	}
	voters := n.Voters(now)
	votes, counting := false, 0
	var quiet, uninformed []string
	for _, v := range voters {
		switch {
		case v.Name == n.self.Node:
			votes = true
			if v.State != quorum.Reachable {
				return "this node's own voter doesn't count yet: " + v.String()
			}
		case v.State == quorum.Quiet:
			quiet = append(quiet, v.String())
		case v.State == quorum.Reachable && n.voter != nil && !n.voter.KnownToCount(v.Name):
			uninformed = append(uninformed, string(v.Name))
		}
		if v.State == quorum.Reachable {
			counting++
		}
	}
	if n.elect != nil {
		if text := n.refreshElect().Unsettled(now); text != "" {
			return text
		}
	}
	switch {
	case len(quiet) > 0:
		return "not every reachable voter counts yet: " + strings.Join(quiet, ", ")
	case counting < min(n.Electorate().Majority()+1, len(voters)):
		return "the loss of one more voter would leave no majority"
	case votes && len(uninformed) > 0:
		return "not every other voter knows yet that this node's votes count: " +
			strings.Join(uninformed, ", ")
	}
	return ""
}
