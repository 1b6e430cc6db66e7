package transport

import (
	"sync/atomic"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Stats counts the events of a port since Listen. All fields but Links only ever rise.
type Stats struct {
	Links    uint64 // links currently up, in either direction
	Accepted uint64 // incoming streams linked
	Dialed   uint64 // dialed streams linked
	Probed   uint64 // probes answered

	Admission AdmissionStats // connections with nothing proved

	// handshakes refused, by either side; without zero counts
	Refused map[vote.Reason]uint64
	Garbage uint64 // incoming connections outside our protocols
	// links broken because of an invalid or oversized message, received or to be sent
	Malformed uint64
	QueueFull uint64 // links broken because the peer took messages too slowly
	Stalled   uint64 // links broken because the peer stopped reading

	// over links; messages when queued, bytes (before TLS) when written
	SentMessages, SentBytes         uint64
	ReceivedMessages, ReceivedBytes uint64 // over links

	SentPackets, ReceivedPackets uint64 // gossip; without dropped packets
	// incoming gossip packets dropped: too long, queue full, or gossip shut down
	DroppedPackets uint64
	// gossip packets and streams refused because they were compressed
	Compressed    uint64
	GossipStreams uint64 // gossip streams handed over
	// gossip streams not taken by memberlist before a timeout or the end of gossip
	DroppedStreams uint64
}

// counters are the source of Stats.
type counters struct {
	accepted, dialed, probed               atomic.Uint64
	refused                                [256]atomic.Uint64 // by reason
	garbage, malformed, queueFull, stalled atomic.Uint64
	sentMessages, sentBytes                atomic.Uint64
	receivedMessages, receivedBytes        atomic.Uint64
	sentPackets, receivedPackets, dropped  atomic.Uint64
	compressed                             atomic.Uint64
	gossipStreams, gossipStreamsDropped    atomic.Uint64
}

// Stats returns the counters. Each counter is exact, but they are not read at the same instant.
func (p *Port) Stats() Stats {
	c := &p.count
	s := Stats{
		Accepted: c.accepted.Load(), Dialed: c.dialed.Load(), Probed: c.probed.Load(),
		Refused: map[vote.Reason]uint64{},
		Garbage: c.garbage.Load(), Malformed: c.malformed.Load(), QueueFull: c.queueFull.Load(), Stalled: c.stalled.Load(),
		SentMessages: c.sentMessages.Load(), SentBytes: c.sentBytes.Load(),
		ReceivedMessages: c.receivedMessages.Load(), ReceivedBytes: c.receivedBytes.Load(),
		SentPackets: c.sentPackets.Load(), ReceivedPackets: c.receivedPackets.Load(), DroppedPackets: c.dropped.Load(),
		Compressed: c.compressed.Load(), GossipStreams: c.gossipStreams.Load(), DroppedStreams: c.gossipStreamsDropped.Load(),
	}
	for r := range c.refused {
		if n := c.refused[r].Load(); n > 0 {
			s.Refused[vote.Reason(r)] = n
		}
	}
	s.Admission = p.admission.counts()
	s.Links = uint64(len(*p.links.Load()))
	return s
}
