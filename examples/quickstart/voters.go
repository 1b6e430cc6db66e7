package main

import (
	"fmt"
	"strings"

	"github.com/lockmesh/lockmesh"
)

// voters returns the node's view of the voters, in a few words.
func (n *node) voters() string {
	var words []string
	for _, v := range n.mesh.Status().Electorate.Voters {
		state := string(v.State)
		if v.State == lockmesh.VoterQuiet {
			state = fmt.Sprintf("quiet %.1fs", v.Quiet.Seconds())
		}
		words = append(words, fmt.Sprintf("%s: %-12s", v.Name, state))
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

// votes reports whether the node's own voter counts, in the node's own view.
func (n *node) votes() bool { return n.ownVoter().State == lockmesh.VoterReachable }

func (n *node) ownVoter() lockmesh.VoterStatus {
	for _, v := range n.mesh.Status().Electorate.Voters {
		if v.Name == n.name {
			return v
		}
	}
	return lockmesh.VoterStatus{}
}
