package lockmesh

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Stats are a node's numbers at a moment, for metrics. Counters count from the start of the node.
// [Status] describes the same state in words, with each lease and each waiting request. The caller
// owns the Stats.
type Stats struct {
	// At is the time of the other fields, by the wall clock; zero with Closed.
	At time.Time
	// Closed says that the node has ended. All fields but the counters are then zero.
	Closed bool

	// Electorate describes the voters, with the state and the round trip of each, as in [Status].
	Electorate ElectorateStatus
	// JointFor is for how long the electorate is being changed, as far as this node knows; zero if
	// it isn't being changed. Longer than two MaxTTL, something holds the change up: see
	// Electorate.Change.
	JointFor time.Duration
	// Quiet is the remaining time during which this node's own votes don't count, at least, since
	// the node has started recently; zero if the votes count, and on a node that doesn't vote.
	Quiet time.Duration

	// Leases is the number of leases held by this node, without re-entries.
	Leases int
	// Waiting is the number of requests of this node not granted yet.
	Waiting int
	// OldestWait is the age of the oldest of them.
	OldestWait time.Duration
	// LeasesEnded counts the ends of leases held by this node. Each reason is present.
	LeasesEnded map[EndReason]uint64

	// ElectorateChanges counts the versions of the electorate that this node has learned of.
	ElectorateChanges uint64
	// RefusedPeers is the number of live nodes with another configuration; see [Status].Refused.
	RefusedPeers int
	// Refusals counts the connections that this node or the other side has refused, by reason. Each
	// reason is present: "configuration" (values differ that must be the same), "secret", "name" (a
	// live process has the same name), "not_voter", "ttl", "old_copy" (a state directory restored
	// from an old copy) and "deposed" (a voter whose votes don't count any more).
	Refusals map[string]uint64

	// Dropped counts what was lost where an application, a network or a peer was too slow.
	Dropped DroppedStats
	// Handshakes counts the unauthenticated connections to this node's port, as in [Status].
	Handshakes HandshakeStatus
	// ObserverPanics counts the panics of [Config].Observer.
	ObserverPanics uint64

	// LoopBusy is for how long the node's loop has worked; always zero without a [Config].Observer,
	// since measuring costs time.
	LoopBusy time.Duration
	// Pauses counts the times at which the node didn't run for a tenth of a second or longer though
	// it had work to do: the process was stopped or got no processor, the machine slept, or one
	// step took that long. Setting the wall clock forward counts as a sleep.
	Pauses uint64
	// PausedFor is the length of all pauses together.
	PausedFor time.Duration
}

// DroppedStats counts lost things.
type DroppedStats struct {
	// ObserverEvents counts events that [Config].Observer wasn't told, since it was too slow.
	ObserverEvents uint64
	// LogLines counts lines that [Config].Logger hasn't taken, since it was too slow or panicked.
	LogLines uint64
	// WatchEvents counts events that watches left out for slow readers, who got an [EventGap]
	// instead.
	WatchEvents uint64
	// GossipPackets and GossipStreams count incoming packets and streams of gossip that the node
	// couldn't take.
	GossipPackets, GossipStreams uint64
	// SlowLinks counts connections to other nodes that were ended, with the messages on their way,
	// since the other node was too slow or has stopped reading.
	SlowLinks uint64
	// BadLinks counts connections that were ended because of an invalid message.
	BadLinks uint64
	// Strangers counts incoming connections that spoke another protocol.
	Strangers uint64
}

// Stats returns this node's numbers. The cost is proportional to the number of waiting requests,
// and doesn't depend on the number of leases.
func (m *Mesh) Stats() Stats {
	m.checkUsable("Mesh.Stats")
	of, alive := m.eng.Stats()
	s := Stats{
		Closed: !alive, JointFor: of.JointFor, Quiet: of.Quiet,
		Leases: of.Leases, Waiting: of.Waiting, OldestWait: of.OldestWait, LeasesEnded: make(map[EndReason]uint64, len(of.Ends)),
		ElectorateChanges: of.Changes, RefusedPeers: of.RefusedPeers, Refusals: make(map[string]uint64, len(refusals)),
		Handshakes: m.handshakeStatus(), ObserverPanics: of.ObserverPanics,
		LoopBusy: of.Busy, Pauses: of.Pauses, PausedFor: of.PausedFor,
	}
	if alive {
		s.At, s.Electorate = wallTime(of.At), m.cfg.electorateStatus(of.Electorate)
	}
	for i, n := range of.Ends {
		s.LeasesEnded[endReasons[i]] = n
	}
	links := m.eng.LinkStats()
	for reason, name := range refusals {
		s.Refusals[name] = links.Refused[reason]
	}
	s.Dropped = DroppedStats{
		ObserverEvents: of.ObserverEvents, LogLines: of.LogLines, WatchEvents: m.watchEventsDropped.Load(),
		GossipPackets: links.DroppedPackets, GossipStreams: links.DroppedStreams,
		SlowLinks: links.QueueFull + links.Stalled, BadLinks: links.Malformed, Strangers: links.Garbage,
	}
	return s
}

// refusals are the names of the reasons for which connections are refused.
var refusals = map[vote.Reason]string{
	vote.ReasonNameTaken: "name", vote.ReasonNotVoter: "not_voter", vote.ReasonTTL: "ttl", vote.ReasonTerms: "configuration",
	vote.ReasonSecret: "secret", vote.ReasonOldCopy: "old_copy", vote.ReasonDeposed: "deposed",
}
