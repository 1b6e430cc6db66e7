package engine

import (
	"sync/atomic"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/transport"
)

// account is the state of this node as told to other nodes in each handshake. The loop stores the
// account; any goroutine reads it.
type account struct {
	standing    vote.Standing
	started     vote.Instant // on the slow clock
	linkRefusal string       // why the node accepts no links any more
	// The maximum TTL as far as the voters have decided one; zero if they haven't, or none is
	// known.
	maxTTL    time.Duration
	quietTime time.Duration // how long a voter is quiet after a start, likewise
	low, high uint8         // the wire versions that the node speaks
	converted bool          // the node was converting, and parts from fixed nodes
	// since when the node's votes count under this configuration, on the slow clock; Never if they
	// don't
	counted vote.Instant
}

// accounts holds the newest account.
type accounts struct{ newest atomic.Pointer[account] }

// update stores the node's account, and reports whether the account has changed.
func (a *accounts) update(now vote.Now, n *node.Node) bool {
	told := n.Account(now)
	next := account{standing: told.Standing, linkRefusal: n.LinkRefusal(), started: now.Slow - vote.Instant(told.Up), counted: vote.Never}
	next.maxTTL, next.quietTime, next.low, next.high = decidedTTL(n.Known())
	if next.converted = n.Converted(); n.Converting() && !next.converted {
		next.low = transport.OldestVersion // fixed nodes of earlier builds speak it
	}
	if told.Counted > 0 || told.Standing == vote.StandingCounting {
		next.counted = now.Slow - vote.Instant(told.Counted)
	}
	if old := a.newest.Load(); old != nil && *old == next {
		return false
	}
	news := next // declared here, so that no memory is allocated without news
	a.newest.Store(&news)
	return true
}

// decidedTTL returns, for the newest known electorate, the longest time for which its voters extend
// a session or a vote, the length of their startup quarantine (both zero if the voters have decided
// no maximum TTL), and the range of wire versions that the node speaks.
//
// A node that knows a decided value speaks only versions that carry the value. A node with voters
// that have decided none speaks only older versions, in which nodes rely on the configured value. A
// node without an electorate speaks both.
func decidedTTL(e *vote.Electorate) (grants, quiet time.Duration, low, high uint8) {
	switch {
	case e == nil || e.Version == 0:
		return 0, 0, transport.OldestVersion, transport.WireVersion
	case e.MaxTTL == 0:
		return 0, 0, transport.OldestVersion, transport.DecidedTTLVersion - 1
	}
	return e.GrantLimit(0), e.QuietTime(0), transport.DecidedTTLVersion, transport.WireVersion
}

// GrantLimit returns the longest time for which voters extend a session or a vote of this node: the
// configured maximum TTL, unless they have decided on less.
func (eng *Engine) GrantLimit() time.Duration {
	if a := eng.accounts.newest.Load(); a != nil && a.maxTTL > 0 {
		return min(a.maxTTL, eng.cfg.MaxTTL)
	}
	return eng.cfg.MaxTTL
}

// longestTTL returns how long a voter may be quiet after a start, and a step of a change of the
// electorate may take: the longer of the configured maximum TTL and the decided one.
func (eng *Engine) longestTTL() time.Duration {
	if a := eng.accounts.newest.Load(); a != nil {
		return max(a.quietTime, eng.cfg.MaxTTL)
	}
	return eng.cfg.MaxTTL
}

// versions returns the wire versions that this node speaks now. Goroutines of the transport call
// it.
func (eng *Engine) versions() (low, high uint8) {
	a := eng.accounts.newest.Load()
	if a == nil {
		return transport.OldestVersion, transport.WireVersion
	}
	return a.low, a.high
}

// account returns the account for a handshake. Goroutines of the transport call it.
func (eng *Engine) account() vote.Account {
	a := eng.accounts.newest.Load()
	if a == nil {
		return vote.Account{Standing: vote.StandingQuiet}
	}
	now := eng.clocks.Now().Slow
	told := vote.Account{Standing: a.standing, Up: max(now.Sub(a.started), 0), LongestTTL: a.quietTime}
	if a.counted != vote.Never {
		told.Counted = max(now.Sub(a.counted), 0)
	}
	return told
}

// linkRefusal returns the reason why this node accepts no links any more, or "". Goroutines of the
// transport call it.
func (eng *Engine) linkRefusal() string {
	if a := eng.accounts.newest.Load(); a != nil {
		return a.linkRefusal
	}
	return ""
}

// isConverted reports whether this node, which was converting, links with no fixed node any more.
// Goroutines of the transport call it.
func (eng *Engine) isConverted() bool {
	a := eng.accounts.newest.Load()
	return a != nil && a.converted
}

// onMet processes an encounter with another node of the mesh, in a handshake begun by either side.
// Goroutines of the transport call onMet.
func (eng *Engine) onMet(s *vote.Sighting) {
	eng.finder.Met(s)
	eng.loop.box.post(false, func(now vote.Now) { eng.loop.node.Met(now, s) })
}
