package member

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	// answerMax bounds how long a process may take to answer.
	answerMax = 2 * time.Second
	// doubtAgain is the pause before an unresponsive process is asked again: a packet may have been
	// lost.
	doubtAgain = time.Second
	// conflictAgain is the interval between reports of a persistent conflict.
	conflictAgain = time.Minute
	// incarnationsMax bounds how many incarnations are remembered. More incarnations mean a process
	// restarting in a loop.
	incarnationsMax = 64
)

// duplicateNames detects duplicate names: it investigates every sign of two processes with the same
// name.
//
// memberlist refuses a name returning with another address until memberlist has declared the old
// address dead, which takes seconds after a kill. So a sign alone is no conflict; a conflict means
// that both processes answer. The process that the sign is about may be gone, too: for a while
// after a restart, gossip still carries messages about earlier incarnations. If the elder process
// doesn't answer, then
//
//   - if the name is ours, peers remember our previous incarnation, and this node should join the
//     peers again;
//   - if the name is a peer's, the peer has restarted, and there is no need to wait until gossip
//     notices.
//
// serf's own conflict resolution, a vote on addresses after which the loser shuts itself down, is
// disabled.
//
// One goroutine calls run and owns the map; any goroutine may call note.
type duplicateNames struct {
	self vote.SessionID
	// to be investigated; a sign is dropped when the channel is full, since more will come
	signs   chan Member
	listed  func(vote.NodeID) (Member, bool)
	answers func(context.Context, Member) bool
	log     *slog.Logger

	report func(Event) // reports a conflict
	// called when peers remember a previous incarnation of this node
	stale func()
	// restarted reports that m has replaced its previous incarnation old, though gossip doesn't
	// list m yet.
	restarted func(m Member, old vote.Incarnation)

	again map[vote.SessionID]time.Time // when a sign of the incarnation is next investigated
}

func newDuplicateNames(self vote.SessionID, log *slog.Logger) *duplicateNames {
	return &duplicateNames{
		self: self, log: log,
		// usually one member restarts at a time, and each join repeats its sign
		signs: make(chan Member, 16),
		again: make(map[vote.SessionID]time.Time),
	}
}

// note queues a sign: m claims a name of another incarnation. note never blocks.
func (n *duplicateNames) note(m Member) {
	select {
	case n.signs <- m:
	default:
	}
}

// run investigates signs until ctx ends.
func (n *duplicateNames) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-n.signs:
			if !time.Now().Before(n.again[idOf(m)]) {
				n.investigate(ctx, m)
			}
		}
	}
}

func (n *duplicateNames) investigate(ctx context.Context, m Member) {
	elder, ours := m, m.Name == n.self.Node
	if !ours {
		var ok bool
		if elder, ok = n.listed(m.Name); !ok || elder.Incarnation == m.Incarnation || elder.State != vote.Alive {
			return // settled meanwhile
		}
	}
	alive := n.isAlive(ctx, elder)
	if ctx.Err() != nil {
		return
	}
	if len(n.again) >= incarnationsMax {
		clear(n.again)
	}
	pause := doubtAgain
	switch {
	case ours && alive:
		pause = conflictAgain
		n.log.Error("another live process has this node's name: names must be unique, so stop one of the two",
			"name", n.self.Node, "incarnation", incarnationText(n.self.Incarnation),
			"other_incarnation", incarnationText(m.Incarnation), "other_addr", m.Addr)
		n.report(Event{Member: m, Kind: NameConflict})
	case ours:
		n.log.Debug("peers remember another incarnation of this node; that incarnation doesn't answer",
			"incarnation", incarnationText(m.Incarnation), "addr", m.Addr)
		n.stale()
	case alive && !n.isAlive(ctx, m):
		n.log.Debug("an earlier incarnation of a peer is remembered, and doesn't answer",
			"name", m.Name, "incarnation", incarnationText(m.Incarnation), "addr", m.Addr)
	case alive:
		pause = conflictAgain
		n.log.Warn("two live processes have one name: names must be unique, so stop one of the two",
			"name", m.Name, "incarnation", incarnationText(elder.Incarnation), "addr", elder.Addr,
			"other_incarnation", incarnationText(m.Incarnation), "other_addr", m.Addr)
	default:
		n.restarted(m, elder.Incarnation)
	}
	n.again[idOf(m)] = time.Now().Add(pause)
}

// isAlive reports whether a process answers within answerMax.
func (n *duplicateNames) isAlive(ctx context.Context, m Member) bool {
	ctx, cancel := context.WithTimeout(ctx, answerMax)
	defer cancel()
	return n.answers(ctx, m)
}

func idOf(m Member) vote.SessionID { return vote.SessionID{Node: m.Name, Incarnation: m.Incarnation} }
