package transport

import (
	"sync/atomic"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Stats counts what a port has done since it was opened. All but Links only ever rise.
type Stats struct {
	Links    uint64 // links up now, in either direction
	Accepted uint64 // streams that came in and were linked
	Dialed   uint64 // streams that went out and were linked
	Greeted  uint64 // greetings answered

	Refused   map[vote.Reason]uint64 // handshakes refused, by either side; reasons that didn't occur are missing
	Garbage   uint64                 // connections that came in and spoke nothing of ours
	Malformed uint64                 // links broken for what is no message, or none within the limits
	QueueFull uint64                 // links broken because the peer took messages too slowly
	Stalled   uint64                 // links broken because the peer stopped reading

	SentMessages, SentBytes         uint64 // over links; messages when queued, bytes (before TLS) when written
	ReceivedMessages, ReceivedBytes uint64 // over links

	SentPackets, ReceivedPackets uint64 // of gossip; those dropped not included
	DroppedPackets               uint64 // packets of gossip that came in and were too long, or for which nobody had time
	GossipStreams                uint64 // streams of gossip handed over
	DroppedStreams               uint64 // streams of gossip that nobody took in time
}

// counters are what Stats is read from.
type counters struct {
	accepted, dialed, greeted              atomic.Uint64
	refused                                [256]atomic.Uint64 // by reason
	garbage, malformed, queueFull, stalled atomic.Uint64
	sentMessages, sentBytes                atomic.Uint64
	receivedMessages, receivedBytes        atomic.Uint64
	sentPackets, receivedPackets, dropped  atomic.Uint64
	gossipStreams, gossipStreamsDropped    atomic.Uint64
}

// Stats returns the counters. Each is exact; together they are not of one instant.
func (p *Port) Stats() Stats {
	c := &p.count
	s := Stats{
		Accepted: c.accepted.Load(), Dialed: c.dialed.Load(), Greeted: c.greeted.Load(),
		Refused: map[vote.Reason]uint64{},
		Garbage: c.garbage.Load(), Malformed: c.malformed.Load(), QueueFull: c.queueFull.Load(), Stalled: c.stalled.Load(),
		SentMessages: c.sentMessages.Load(), SentBytes: c.sentBytes.Load(),
		ReceivedMessages: c.receivedMessages.Load(), ReceivedBytes: c.receivedBytes.Load(),
		SentPackets: c.sentPackets.Load(), ReceivedPackets: c.receivedPackets.Load(), DroppedPackets: c.dropped.Load(),
		GossipStreams: c.gossipStreams.Load(), DroppedStreams: c.gossipStreamsDropped.Load(),
	}
	for r := range c.refused {
		if n := c.refused[r].Load(); n > 0 {
			s.Refused[vote.Reason(r)] = n
		}
	}
	s.Links = uint64(len(*p.links.Load()))
	return s
}
