package lockmesh

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/engine"
	"github.com/lockmesh/lockmesh/internal/mismatch"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// Status is this node's view of the mesh at a moment. Other nodes may have a different view. The
// caller owns the Status.
type Status struct {
	// Name is this node's name.
	Name string
	// Incarnation identifies this incarnation of the node: a random number for each start.
	Incarnation uint64
	// Addr is the address at which other nodes reach this node, host:port.
	Addr string
	// Closed says that the node has ended. All other fields except Name, Incarnation, Addr,
	// Handshakes, Secrets and Members are then empty; Members is as last seen.
	Closed bool
	// Members are the nodes known to gossip, including this node, by name. They are hints: no
	// decision depends on them.
	Members []MemberStatus
	// TTL is the length of a lease of this node without [WithTTL]: [Config].TTL, or
	// Electorate.MaxTTL if that is less.
	TTL time.Duration
	// Electorate describes the voters that grant locks.
	Electorate ElectorateStatus
	// Refused are the live nodes of this mesh with another configuration, by name: nodes met by
	// this node within the last seconds, if this node can vote, and nodes for which its voter
	// waits.
	Refused []RefusedPeer
	// Held are the leases held by this node, by key.
	Held []LeaseStatus
	// Waiting are the requests of this node not granted yet, the longest wait first.
	Waiting []WaitStatus
	// Handshakes counts the unauthenticated connections to this node's port.
	Handshakes HandshakeStatus
	// Secrets are the secrets in use in the mesh, by ID; empty without a secret.
	Secrets []SecretStatus
}

// HandshakeStatus counts connections to a node's port that were not from members, or from members
// in trouble: at first the two can't be told apart. All fields except Open are counters. If they
// keep rising, keep strangers away from the port.
type HandshakeStatus struct {
	// Open is the number of connections with an unfinished handshake now.
	Open int
	// Silent counts connections closed because their first message didn't arrive within a second,
	// or within five seconds while most places for such connections were free.
	Silent uint64
	// Unfinished counts connections closed because their handshake didn't end within five seconds.
	Unfinished uint64
	// Displaced counts connections closed early to make room for newer connections.
	Displaced uint64
	// Compressed counts packets and streams of gossip refused because they were compressed.
	Compressed uint64
}

// RefusedPeer is a live node of the mesh not admitted by this node, since their configurations
// differ.
type RefusedPeer struct {
	Name string // the node's name
	// Addr is the node's advertised address, host:port.
	Addr string
	// Incarnation identifies the node's incarnation: each start has another number.
	Incarnation uint64
	// Reason names each value that differs, with both values.
	Reason string
	// Seen is when the node was last met, by the wall clock.
	Seen time.Time
}

// MemberStatus is a node as seen by gossip.
type MemberStatus struct {
	Name string // the node's name
	// Addr is the node's advertised address, host:port.
	Addr string
	// State is "alive", "failed" (the node stopped answering) or "left" (the node said goodbye).
	State string
	// Incarnation identifies the node's incarnation; zero if unknown.
	Incarnation uint64
}

// ElectorateStatus is the electorate as seen by this node.
type ElectorateStatus struct {
	// Voters are all voters, by name.
	Voters []VoterStatus
	// Majority is the number of voters needed for a decision.
	Majority int
	// Counting is the number of voters that answer this node and count.
	Counting int
	// Ready says that locks can be granted: the counting voters are a majority.
	Ready bool
	// Spare is the number of counting voters that may fail, whichever they are, with a majority
	// left. At zero the next failure may stop all locks.
	Spare int

	// Dynamic says that membership of the electorate is dynamic: [Config].StateDir or Expect is
	// set. Otherwise the fields below are empty.
	Dynamic bool
	// Version is the number of the electorate, from 1; zero while this node knows of none.
	Version uint64
	// Joint says that the electorate is being changed: decisions need a majority of the old voters
	// and a majority of the new voters. Voters then contains both, and Majority is of the larger of
	// the two sets.
	Joint bool
	// Old are the names of the voters before the change, while Joint; New are the names of the
	// voters after the change.
	Old, New []string
	// Voter says that this node is a voter.
	Voter bool
	// FromFixed says that this node is being converted from fixed voters: [Config].FromFixed is
	// set. Version is 1 until the voters change for the first time; Change names the fixed nodes
	// with which this node has links.
	FromFixed bool
	// Standby are the nodes on standby, by name: nodes that could be voted in if there were need or
	// room, as far as this node is a voter and knows.
	Standby []string
	// Change says which nodes are being voted in or out, and why the change waits; before the first
	// electorate is known, what this node waits for, and which entries of Peers lead to no other
	// node, and why. Empty if nothing changes.
	Change string
	// Trouble says why this node can't take part in changes; empty if it can. The node continues to
	// vote on locks.
	Trouble string
	// Lost says why there may never be a majority again, and what an operator must do in this case;
	// empty if there is a majority, or may well be again. See [Mesh.Recover].
	Lost string
	// MaxVoters is the maximum number of voters, as decided by the voters; zero before they have
	// decided.
	MaxVoters int
	// MaxTTL is the maximum TTL, as decided by the voters; zero before they have decided. While
	// they change it, it is the value that will count.
	MaxTTL time.Duration
	// Expect is [Config].Expect.
	Expect int
	// StateDir is this node's state directory. DirID is the directory's identity, drawn at random
	// on first use: a node that has lost its directory comes back with another. With Expect there
	// is no directory, and DirID is the identity of this process, drawn at random at its start, and
	// again whenever the process gives up an electorate without a majority.
	StateDir string
	DirID    uint64
	// StoredVersion is the version in the directory, by which this node votes. StoredVersion is
	// behind Version while the disk is busy.
	StoredVersion uint64
}

// VoterState is the state of a voter as seen by this node.
type VoterState string

// The states of a voter.
const (
	// VoterReachable means that the voter answers, and its votes count.
	VoterReachable VoterState = "reachable"
	// VoterQuiet means that the voter answers, but has started recently, and its votes don't count
	// yet.
	VoterQuiet VoterState = "quiet"
	// VoterConnecting means that nothing is known yet, or the connection has just broken.
	VoterConnecting VoterState = "connecting"
	// VoterUnreachable means that the voter can't be reached. This node tries again and again.
	VoterUnreachable VoterState = "unreachable"
	// VoterRefused means that the voter refuses this node.
	VoterRefused VoterState = "refused"
	// VoterBehind means that the voter answers, but uses an outdated electorate, since the voter
	// can't write its state directory.
	VoterBehind VoterState = "behind"
	// VoterSilent means that the voter seems connected, but hasn't answered for three tenths of
	// this node's TTL: the voter hangs, or the network loses messages. A silent voter isn't relied
	// on, and soon becomes VoterConnecting or VoterUnreachable unless it answers.
	VoterSilent VoterState = "silent"
)

// VoterStatus is a voter as seen by this node.
type VoterStatus struct {
	Name  string     // the voter's name
	State VoterState // as seen by this node
	// Quiet is the minimum remaining time during which a quiet voter won't count.
	Quiet time.Duration
	// Text describes the state and its reason in a few words.
	Text string
	// Drift says how far the voter's clock was seen to gain on this node's clock, beyond the rate
	// assumed for mutual exclusion, or that this machine was paused unseen. Empty as long as all is
	// well. See ClockRate for the rate itself.
	Drift string
	// RoundTrip is the time to the voter and back, smoothed; zero while unknown.
	RoundTrip time.Duration
	// ClockOffset is by how much the voter's wall clock is ahead of this node's, to within half a
	// round trip; zero while unknown. No lock depends on it.
	ClockOffset time.Duration
	// ClockRate is how much faster the voter's clock runs than this node's, in parts per million:
	// the mean of up to an hour. It is zero while it isn't known to within 20, for some minutes
	// after the start of either node, and for longer where round trips are long.
	ClockRate int64
}

// LeaseStatus is a lease held by this node.
type LeaseStatus struct {
	Key      string    // the held key
	Token    uint64    // the fencing token; see [Lease.Token]
	Deadline time.Time // by the wall clock; see [Lease.Deadline]
}

// WaitStatus is a waiting request of this node.
type WaitStatus struct {
	Key string // the requested key
	// Since is the time of the request, by the wall clock.
	Since time.Time
	// Text says why the request waits.
	Text string
}

// String formats the status in a few lines, for people.
func (s Status) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "node %s (incarnation %s) at %s", s.Name,
		engine.IncarnationText(vote.Incarnation(s.Incarnation)), s.Addr)
	if s.Closed {
		b.WriteString(", closed")
	}
	e := s.Electorate
	if len(e.Voters) > 0 {
		ready := "not ready"
		if e.Ready {
			ready = "ready"
		}
		fmt.Fprintf(&b, "\nvoters: %d of %d count, %d needed, %s", e.Counting, len(e.Voters), e.Majority, ready)
	}
	for _, v := range e.Voters {
		fmt.Fprintf(&b, "\n  %s", v.Text)
	}
	e.write(&b)
	if len(s.Members) > 0 {
		b.WriteString("\nmembers:")
	}
	for _, m := range s.Members {
		fmt.Fprintf(&b, "\n  %s %s at %s", m.Name, m.State, m.Addr)
	}
	if len(s.Refused) > 0 {
		b.WriteString("\nrefused:")
	}
	for _, r := range s.Refused {
		fmt.Fprintf(&b, "\n  %s at %s: %s", r.Name, r.Addr, r.Reason)
	}
	if len(s.Held) > 0 {
		b.WriteString("\nholds:")
	}
	for _, l := range s.Held {
		fmt.Fprintf(&b, "\n  %q, token %d, until %s", l.Key, l.Token, l.Deadline.Format("15:04:05.000"))
	}
	if len(s.Waiting) > 0 {
		b.WriteString("\nwaits for:")
	}
	for _, w := range s.Waiting {
		fmt.Fprintf(&b, "\n  %q, since %s: %s", w.Key, w.Since.Format("15:04:05.000"), w.Text)
	}
	if d := s.Handshakes; d != (HandshakeStatus{Open: d.Open}) {
		fmt.Fprintf(&b, "\nincomplete handshakes: %d silent, %d unfinished, %d displaced by newer "+
			"connections; %d open",
			d.Silent, d.Unfinished, d.Displaced, d.Open)
	}
	return b.String()
}

// refusedPeers returns refused peers for users, as of a time of the wall clock.
func refusedPeers(refused []mismatch.Refused, at vote.Micros) (all []RefusedPeer) {
	for _, r := range refused {
		all = append(all, RefusedPeer{
			Name: string(r.Peer.Node), Addr: r.Addr, Incarnation: uint64(r.Peer.Incarnation), Reason: r.Reason, Seen: time.UnixMicro(int64(at)).Add(-r.Seen),
		})
	}
	return all
}
