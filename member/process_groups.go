package member

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// ProcessGroups counts the open groups of one process. A group that starts beside many others
// probes less often and sends less, since all groups of a process wait for the same processors. If
// probes are due faster than the processors can answer, probes fail. Each failure spreads a false
// alarm and a refutation, and this traffic delays the next probes.
//
// The zero value counts no groups. Any goroutine may use ProcessGroups.
type ProcessGroups struct{ open atomic.Int64 }

// enter counts a group that starts, and returns the number of groups with the new group. A group
// that isn't counted (nil) is alone.
func (c *ProcessGroups) enter() groupCount {
	if c == nil {
		return 1
	}
	return groupCount(c.open.Add(1))
}

// leave takes a group out of the count. Each call of enter needs one call of leave.
func (c *ProcessGroups) leave() {
	if c != nil {
		c.open.Add(-1)
	}
}

// count returns the number of open groups.
func (c *ProcessGroups) count() groupCount {
	if c == nil {
		return 1
	}
	return groupCount(c.open.Load())
}

// groupCount is a number of open groups.
type groupCount int64

const (
	// manyGroups is the number above which a process has many groups: more nodes than a process has
	// as a rule.
	manyGroups groupCount = 32
	// probePerGroup is by how much the interval between probes grows with each of many groups.
	// The 33rd group probes about once a second, half as often as the 32 groups before: these keep
	// the interval with which they started, and leave that much less to the other groups.
	probePerGroup = probeDefault / 16
	// manyGroupsProbeMax bounds the interval between probes, however many groups there are. The
	// time until a failure is known grows with the interval, and so does the time of Close.
	manyGroupsProbeMax = 2 * time.Second
	// manyGroupsRetransmitMult is RetransmitMult of memberlist beside many groups: each node passes
	// news on half as often as by default.
	manyGroupsRetransmitMult = 2
)

func (n groupCount) isMany() bool { return n > manyGroups }

// probe returns the default of Timing.Probe for a group that starts as one of so many.
func (n groupCount) probe() time.Duration {
	if !n.isMany() {
		return probeDefault
	}
	return min(time.Duration(n)*probePerGroup, manyGroupsProbeMax)
}

// apply lets memberlist send less beside many groups. A group that started as one of many passes
// news on less often. And while the groups are many, no group repeats a probe without an
// answer over a stream: the answer is late rather than lost, and a stream costs a TLS handshake.
func (c *ProcessGroups) apply(atStart groupCount, m *memberlist.Config) {
	if atStart.isMany() {
		m.RetransmitMult = manyGroupsRetransmitMult
	}
	m.DisableTcpPingsForNode = func(string) bool { return c.count().isMany() }
}
