package mismatch

import (
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// waitsForLeases reports whether the voter doesn't count only because a node without a vote may
// hold leases under a longer MaxTTL.
func (m *Machine) waitsForLeases(now vote.Now) bool {
	return m.phase == PhaseSettling && !m.own.Decides && now.Slow < m.pause.leasesEnd && m.pause.votersEnd < m.pause.leasesEnd
}

// warnOfLeases warns the operator, once for each longer MaxTTL, that the voter waits for leases. A
// young node warns of nothing, since its own voters may not have answered yet.
func (m *Machine) warnOfLeases(now vote.Now) {
	if m.pause.warned || !m.aged || !m.waitsForLeases(now) {
		return
	}
	m.pause.warned = true
	name := m.pause.by.sighting.Peer.Node
	if addr := m.pause.by.sighting.Addr; addr != "" {
		name += vote.NodeID(" (" + addr + ")")
	}
	source := "" // the configuration
	if m.pause.longest > m.pause.by.sighting.Terms.MaxTTL {
		source = ", as its voters decided,"
	}
	left := m.pause.leasesEnd.Sub(now.Slow)
	m.notices = append(m.notices, fmt.Sprintf(
		"MaxTTL is %v%s on %s and %v on %s, so %s may hold leases of %v under earlier processes of the "+
			"voters. The votes of %s don't count for another %v, until %s, unless most voters count "+
			"before. If no lease of that length can exist, stop %s and restart the voters",
		m.pause.longest, source, name, m.terms.MaxTTL, m.self.Node, m.pause.by.sighting.Peer.Node, m.pause.longest,
		m.self.Node, left.Round(time.Second), ends(now, left), m.pause.by.sighting.Peer.Node))
}

// ends returns the wall clock's reading at the end of a wait.
func ends(now vote.Now, left time.Duration) string {
	return time.UnixMicro(int64(now.Wall)).Add(left).UTC().Format(time.RFC3339)
}

// Notices returns and clears the warnings for the operator.
func (m *Machine) Notices() []string {
	n := m.notices
	m.notices = nil
	return n
}

// Remaining returns how much longer the voter doesn't count, at least; zero if no end is known, or
// if nothing holds the voter.
func (m *Machine) Remaining(now vote.Now) time.Duration {
	if m.phase != PhaseSettling {
		return 0
	}
	return max(m.pauseEnds().Sub(now.Slow), 0)
}
