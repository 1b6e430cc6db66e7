package member

import (
	"time"

	"github.com/hashicorp/memberlist"
)

// Upkeep bounds the gossip traffic sent by one node. The bounds follow from [Timing] and, except
// for Sync, don't grow with the mesh.
//
// In normal operation a node sends a ping packet each Timing.Probe, and answers the pings of
// others, on average as many; so
//
//	Probes = 2 / Timing.Probe
//
// While there is news (a member that has joined, gone or changed), the news is added to these
// packets, and each Timing.Gossip the node also sends a packet of news to each of a few other
// members:
//
//	News = GossipNodes / Timing.Gossip
//
// An unanswered ping additionally costs a stream, and a packet for each member that is asked to
// probe, too.
type Upkeep struct {
	Probes float64 // packets a second, on average; fewer between two members
	// additional packets a second at most, until every node knows the news, within seconds
	News   float64
	Packet int // maximum bytes of a packet
	// the interval at which a node compares its full state with one other, over a stream
	Sync time.Duration
}

// syncScale is the size of a mesh above which memberlist compares state less often: half as often
// at twice the size, and so on.
const syncScale = 32

// overdrawn is the maximum by which memberlist exceeds its own limit of a packet, in bytes:
// memberlist forgets the ping's entry in the list of the packet's parts, and the packet's checksum.
const overdrawn = 2 + 5

// packetMax is the maximum size of a gossip packet, in bytes: with the headers of IPv6 and UDP (48)
// the packet stays below 1,100 bytes. Paths through VPN, PPPoE and overlays carry 1,100 bytes, and
// many silently drop longer packets. The longest single message, about a member with the longest
// name and the most tags, has 870 bytes, and a label and encryption add up to 159.
const packetMax = 1048

// UpkeepOf returns the gossip traffic of each node in a mesh with the given number of members. Zero
// fields of t are the defaults.
func UpkeepOf(t Timing, members int) Upkeep {
	m := memberlist.DefaultLANConfig()
	t.withDefaults(1).apply(m)
	u := Upkeep{
		Probes: 2 / m.ProbeInterval.Seconds(), News: float64(m.GossipNodes) / m.GossipInterval.Seconds(), Packet: packetMax, Sync: m.PushPullInterval,
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

// apply sets memberlist's intervals and timeouts, and the size of its packets.
func (t Timing) apply(m *memberlist.Config) {
	m.ProbeInterval, m.ProbeTimeout = t.Probe, t.ProbeTimeout
	m.GossipInterval = t.Gossip
	m.PushPullInterval = t.Sync
	m.UDPBufferSize = packetMax - overdrawn
}
