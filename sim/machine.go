package sim

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/lease"
	"github.com/lockmesh/lockmesh/quorum"
)

// Machine is what a world runs on each of its hosts: a *node.Node as in production, or one in a wrapper that breaks a rule to see
// whether the world notices. The world is its shell: it reads the clocks, moves the messages and decides nothing.
type Machine interface {
	Lock(now vote.Now, ask quorum.Ask) (vote.Number, error)
	Seat(n vote.Number) vote.Number
	Share(now vote.Now, n vote.Number) bool
	Set(now vote.Now, n vote.Number, value []byte) uint64
	Release(now vote.Now, num vote.Number)
	Link(now vote.Now, conn vote.Conn, voter vote.SessionID)
	Unlink(now vote.Now, conn vote.Conn)
	DialFailed(now vote.Now, voter vote.NodeID, why string)
	Refused(now vote.Now, voter vote.NodeID, why vote.Reason, text string)
	Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message)
	Tick(now vote.Now)
	Next(now vote.Now) time.Duration
	Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event)
	Why(now vote.Now, num vote.Number) quorum.Wait
	Ready() bool

	// Where the electorate follows the living.

	Gossip(now vote.Now, all []electorate.Seen)
	Saves() []vote.State
	Saved(now vote.Now, writes uint64, failed string)
	Wanted() []vote.NodeID
	Known() *vote.Electorate
	LeaveElectorate(now vote.Now)

	// For the checks, which change nothing.

	Requester() *quorum.Requester
	Voter() *lease.Voter
	Tap(func(vote.Conn, *vote.Message))
}

var _ Machine = (*node.Node)(nil)

// Builder makes a machine for a new life of a host. The default is [Genuine].
type Builder func(w *World, cfg node.Config, now vote.Now) (Machine, error)

// Genuine builds the node that production runs.
func Genuine(_ *World, cfg node.Config, now vote.Now) (Machine, error) { return node.New(cfg, now) }
