package member

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// Crowd counts the open groups of one process. A group that starts in a large crowd probes less
// often and sends less, since all groups of a process wait for the same processors. If probes are
// due faster than the processors can answer, probes fail. Each failure spreads a false alarm and a
// refutation, and this traffic delays the next probes.
//
// The zero value is an empty crowd. Any goroutine may use a Crowd.
type Crowd struct{ open atomic.Int64 }

// enter counts a group that starts, and returns the size of the crowd with the new group. A group
// without a crowd (nil) is alone.
func (c *Crowd) enter() crowdSize {
	if c == nil {
		return 1
	}
	return crowdSize(c.open.Add(1))
}

// leave takes a group out of the count. Each call of enter needs one call of leave.
func (c *Crowd) leave() {
	if c != nil {
		c.open.Add(-1)
	}
}

// size returns the number of open groups.
func (c *Crowd) size() crowdSize {
	if c == nil {
		return 1
	}
	return crowdSize(c.open.Load())
}

// crowdSize is a number of open groups.
type crowdSize int64

const (
	// crowdLarge is the size above which a crowd is large: more nodes than a process has as a rule.
	crowdLarge crowdSize = 32
	// crowdProbe is by how much the interval between probes grows with each group of a large crowd.
	// The 33rd group probes about once a second, half as often as the 32 groups before: these keep
	// the interval with which they started, and leave that much less to the other groups.
	crowdProbe = probeDefault / 16
	// crowdProbeMax bounds the interval between probes, however large the crowd is. The time until
	// a failure is known grows with the interval, and so does the time of Close.
	crowdProbeMax = 2 * time.Second
	// crowdRetransmitMult is RetransmitMult of memberlist in a large crowd: each node passes news
	// on half as often as by default.
	crowdRetransmitMult = 2
)

func (n crowdSize) isLarge() bool { return n > crowdLarge }

// probe returns the default of Timing.Probe for a group that starts in a crowd of this size.
func (n crowdSize) probe() time.Duration {
	if !n.isLarge() {
		return probeDefault
	}
	return min(time.Duration(n)*crowdProbe, crowdProbeMax)
}

// apply lets memberlist send less in a large crowd. A group that started as part of a large crowd
// passes news on less often. And while the crowd is large, no group repeats a probe without an
// answer over a stream: the answer is late rather than lost, and a stream costs a TLS handshake.
func (c *Crowd) apply(atStart crowdSize, m *memberlist.Config) {
	if atStart.isLarge() {
		m.RetransmitMult = crowdRetransmitMult
	}
	m.DisableTcpPingsForNode = func(string) bool { return c.size().isLarge() }
}
