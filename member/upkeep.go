package member

import (
	"time"

	"github.com/hashicorp/memberlist"
)

// Upkeep bounds what gossip has one node send. It follows from [Timing] and doesn't grow with the mesh, but for Sync.
//
// While all goes well a node sends a packet of a ping each Timing.Probe, and answers those of others, of which as many come on average; so
//
//	Probes = 2 / Timing.Probe
//
// While there is news (a member that has come, gone or changed), it is put into those packets, and each Timing.Gossip into one for each of a
// few other members more:
//
//	News = GossipNodes / Timing.Gossip
//
// A ping that isn't answered costs as many packets more as members are asked to try, too, and a stream.
type Upkeep struct {
	Probes float64       // packets a second, on average; fewer between two members
	News   float64       // packets a second at most, on top, for the seconds that it takes until everyone knows
	Packet int           // bytes of a packet at most
	Sync   time.Duration // how often a node compares all it knows with one other, over a stream
}

// syncScale is how large a mesh is from which on memberlist has nodes compare more seldom: at twice the size half as often, and so on.
const syncScale = 32

// overdrawn is by how many bytes memberlist exceeds its own limit of a packet at most: it forgets the ping's place in the list of what a packet
// is made of, and its checksum.
const overdrawn = 2 + 5

// UpkeepOf returns what gossip costs each of so many members. Fields of t that are zero are the defaults.
func UpkeepOf(t Timing, members int) Upkeep {
	m := memberlist.DefaultLANConfig()
	t.withDefaults().apply(m)
	u := Upkeep{
		Probes: 2 / m.ProbeInterval.Seconds(), News: float64(m.GossipNodes) / m.GossipInterval.Seconds(), Packet: m.UDPBufferSize + overdrawn, Sync: m.PushPullInterval,
	}
	for n := syncScale; n < members; n *= 2 {
		u.Sync += m.PushPullInterval
	}
	if members < 2 {
		return Upkeep{Packet: u.Packet, Sync: u.Sync}
	}
	u.News *= float64(min(members-1, m.GossipNodes)) / float64(m.GossipNodes)
	return u
}

// apply sets memberlist's clocks.
func (t Timing) apply(m *memberlist.Config) {
	m.ProbeInterval, m.ProbeTimeout = t.Probe, t.ProbeTimeout
	m.GossipInterval = t.Gossip
	m.PushPullInterval = t.Sync
}
