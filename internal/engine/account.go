package engine

import (
	"sync/atomic"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// account is the state of this node as told to other nodes in each handshake. The loop stores the
// account; any goroutine reads it.
type account struct {
	standing    vote.Standing
	started     vote.Instant // on the slow clock
	linkRefusal string       // why the node accepts no links any more
	// since when the node's votes count under this configuration, on the slow clock; Never if they
	// don't
	counted vote.Instant
}

// accounts holds the newest account.
type accounts struct{ newest atomic.Pointer[account] }

// update stores the node's account, and reports whether the account has changed.
func (a *accounts) update(now vote.Now, n *node.Node) bool {
	told := n.Account(now)
	next := account{standing: told.Standing, linkRefusal: n.Bars(), started: now.Slow - vote.Instant(told.Up), counted: vote.Never}
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

// account returns the account for a handshake. Goroutines of the transport call it.
func (eng *Engine) account() vote.Account {
	a := eng.accounts.newest.Load()
	if a == nil {
		return vote.Account{Standing: vote.StandingQuiet}
	}
	now := eng.clocks.Now().Slow
	told := vote.Account{Standing: a.standing, Up: max(now.Sub(a.started), 0)}
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

// onMet processes an encounter with another node of the mesh, in a handshake begun by either side.
// Goroutines of the transport call onMet.
func (eng *Engine) onMet(s *vote.Sighting) {
	eng.finder.Met(s)
	eng.loop.box.post(false, func(now vote.Now) { eng.loop.node.Met(now, s) })
}
