package mismatch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// remedy is the advice to the operator.
const remedy = "give all nodes the same Voters, or the same Expect, MinVoters and Register; a StateDir to all nodes or to none; and with fixed voters the same MaxTTL"

// namedMost bounds how many nodes a text names.
const namedMost = 5

// explain returns why the voter doesn't count, with both values and the nodes.
func (m *Machine) explain(t *tally) string {
	var names []string
	for _, p := range t.seen {
		name := string(p.sighting.Peer.Node)
		if p.sighting.Addr != "" {
			name += " (" + p.sighting.Addr + ")"
		}
		if p.counts() {
			name += ", which counts"
		}
		names = append(names, name)
	}
	if more := len(names) - namedMost; more > 0 {
		names = append(names[:namedMost], fmt.Sprintf("%d more", more))
	}
	what := "waits"
	if m.phase == PhaseWithdrawn {
		what = "withdrew"
	}
	there := vote.NodeID("?")
	if len(t.seen) > 0 {
		there = t.seen[0].sighting.Peer.Node
	}
	return fmt.Sprintf(
		"the voter of %s %s, since nodes of its mesh run with another configuration: %s. The "+
			"nodes are: %s. %s; where those nodes were stopped for good without Leave, restart "+
			"this node",
		m.self.Node, what, m.terms.Differences(t.terms, there), strings.Join(names, "; "), capital(remedy))
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// Refusal returns why this node's calls are refused; empty if they aren't. Nothing is refused while
// the node is young, since its own voters may not have answered yet.
func (m *Machine) Refusal(now vote.Now) string {
	switch m.phase {
	case PhaseWaiting:
		if now.Slow.Sub(m.started) < m.grace() {
			return ""
		}
		return m.reason
	case PhaseWithdrawn:
		return m.reason
	case PhaseDuplicate:
		// Otherwise the shell watches the other process, and reports the duplicate.
		if m.dup.counted {
			return m.reason
		}
	}
	return ""
}

// Refused is a node refused because of its configuration.
type Refused struct {
	Peer   vote.SessionID
	Addr   string
	Reason string
	Seen   time.Duration // ago
}

// Refused returns, by name, the nodes with another configuration that were met not long ago or that
// the voter waits for.
func (m *Machine) Refused(now vote.Now) []Refused {
	var all []Refused
	by := m.pause.by
	if !m.waitsForLeases(now) {
		by = nil
	}
	for _, p := range m.peers {
		waited := by != nil && p.sighting.Peer == by.sighting.Peer
		ago := now.Slow.Sub(p.at)
		if p.key == m.key || p.sighting.Standing == vote.StandingLeaving || ago > shownFor && !waited && !(m.phase.Holds() && p.votes()) {
			continue
		}
		all = append(all, m.refused(p, ago))
		if waited {
			by = nil
		}
	}
	if by != nil {
		all = append(all, m.refused(by, now.Slow.Sub(by.at)))
	}
	slices.SortFunc(all, func(a, b Refused) int {
		return cmp.Or(cmp.Compare(a.Peer.Node, b.Peer.Node), cmp.Compare(a.Peer.Incarnation, b.Peer.Incarnation))
	})
	return all
}

// refused describes a refused node that was met so long ago.
func (m *Machine) refused(p *peer, ago time.Duration) Refused {
	return Refused{p.sighting.Peer, p.sighting.Addr, m.terms.Differences(&p.sighting.Terms, p.sighting.Peer.Node), ago}
}
