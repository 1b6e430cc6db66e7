// Package broken builds nodes that break a rule of the protocol, for the tests of packages sim and
// explore: the tests demand that a simulated world and the explorer find the harm. A broken node is
// the genuine node in a wrapper that changes calls, messages or events. Production code has no
// switch for broken rules.
package broken

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/lease"
	"github.com/lockmesh/lockmesh/quorum"
)

// Machine is a node, genuine or broken, as the explorer drives the node. Each wrapper of this
// package embeds the *node.Node, and so has the further methods that a simulated world calls.
type Machine interface {
	Lock(now vote.Now, ask quorum.RequestOptions) (vote.Number, error)
	Downgrade(now vote.Now, num vote.Number) bool
	Release(now vote.Now, num vote.Number)
	Link(now vote.Now, conn vote.Conn, voter vote.SessionID)
	Unlink(now vote.Now, conn vote.Conn)
	Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message)
	Tick(now vote.Now)
	Next(now vote.Now) time.Duration
	Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event)
	Voter() *lease.Voter
}

// Builder makes the machine of a new incarnation of a node. The explorer copies machines by
// reflection, so the functions in a machine must not close over state.
type Builder func(cfg node.Config, now vote.Now) (Machine, error)

// Hasty has no startup quarantine: the node's clock is ahead by the maximum TTL. The node asks for
// the highest token, and counts as soon as the token is known.
func Hasty(cfg node.Config, now vote.Now) (Machine, error) {
	now.Slow = now.Slow.Add(-cfg.MaxTTL)
	return node.New(cfg, now)
}
