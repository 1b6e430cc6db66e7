package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/lease"
	"github.com/lockmesh/lockmesh/quorum"
)

// Machine is the node on each host of a world: a *node.Node as in production, or a wrapper that
// breaks a rule, to see whether the world notices. The world is the node's shell: the world reads
// the clocks, moves the messages and decides nothing.
type Machine interface {
	Lock(now vote.Now, ask quorum.RequestOptions) (vote.Number, error)
	Alias(n vote.Number) vote.Number
	Downgrade(now vote.Now, n vote.Number) bool
	SetValue(now vote.Now, n vote.Number, value []byte) uint64
	Release(now vote.Now, num vote.Number)
	Inspect(now vote.Now, key vote.Key) uint64
	Query(now vote.Now, key vote.Key) uint64
	InspectForWatch(now vote.Now, key vote.Key, prefix bool) uint64
	Watch(now vote.Now, key vote.Key, prefix bool) uint64
	Unwatch(now vote.Now, nonce uint64)
	Link(now vote.Now, conn vote.Conn, voter vote.SessionID)
	Unlink(now vote.Now, conn vote.Conn)
	DialFailed(now vote.Now, voter vote.NodeID, why string)
	Refused(now vote.Now, voter vote.NodeID, why vote.Reason, text string)
	Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message)
	Tick(now vote.Now)
	Next(now vote.Now) time.Duration
	Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event)
	PendingReason(now vote.Now, num vote.Number) quorum.Wait
	Ready() bool

	// For worlds with different voter lists.

	Met(now vote.Now, s *vote.Sighting)
	Account(now vote.Now) vote.Account
	Refusal(now vote.Now) string

	// For worlds with dynamic membership.

	Gossip(now vote.Now, all []electorate.Seen)
	Saves() []vote.DiskState
	Saved(now vote.Now, writes uint64, failed string)
	RegisterCalls() []vote.RegisterCall
	Registered(now vote.Now, result vote.RegisterResult)
	AppendWanted(dst []vote.NodeID) []vote.NodeID
	Known() *vote.Electorate
	Elector() vote.Elector
	LeaveElectorate(now vote.Now)
	Propose(now vote.Now, voters []vote.Elector) error

	// For worlds of a conversion from a fixed list.

	FixedPeer(conn vote.Conn, peer vote.NodeID)
	Converted() bool

	// For the checks; these methods change nothing.

	Requester() *quorum.Requester
	Voter() *lease.Voter
	Tap(func(vote.Conn, *vote.Message))
}

var _ Machine = (*node.Node)(nil)

// Builder makes a machine for a new incarnation of a host. The default is [Genuine].
type Builder func(w *World, cfg node.Config, now vote.Now) (Machine, error)

// Genuine builds the node that production runs.
func Genuine(_ *World, cfg node.Config, now vote.Now) (Machine, error) { return node.New(cfg, now) }
