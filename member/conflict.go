package member

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	// greetMax bounds how long a process may take to answer.
	greetMax = 2 * time.Second
	// doubtAgain is how soon a process is asked again that didn't answer: it may have been a lost packet.
	doubtAgain = time.Second
	// conflictAgain is how often a conflict that stays is told again.
	conflictAgain = time.Minute
	// livesMax bounds how many lives are remembered. More than that means that something restarts in a loop.
	livesMax = 64
)

// namesakes looks into every sign that two processes have one name.
//
// memberlist refuses a name that comes back with another address until it has given the old one up, which takes seconds after a kill.
// So a sign alone is no conflict: it is one when the elder process still answers. If it doesn't, then
//   - where the name is ours, peers remember our last life, and should be told of us again;
//   - where it is a peer's, the peer has restarted, and there is no need to wait until gossip sees it.
//
// serf's own way is a vote on addresses, after which the loser shuts itself down; it is off.
//
// One goroutine runs it and owns the map; anyone may note a sign.
type namesakes struct {
	self    vote.SessionID
	signs   chan Member // to be looked into; when it is full a sign is dropped, since more will come
	listed  func(vote.NodeID) (Member, bool)
	answers func(context.Context, Member) bool
	log     *slog.Logger

	tell   func(Event)                   // of a conflict
	stale  func()                        // peers remember an old life of ours
	rumour func(m Member, old vote.Life) // m is there instead of its old life, though gossip doesn't list it yet

	again map[vote.SessionID]time.Time // when a sign of this life is looked into again
}

func newNamesakes(self vote.SessionID, log *slog.Logger) *namesakes {
	return &namesakes{
		self: self, log: log,
		signs: make(chan Member, 16), // one member restarts at a time, usually, and each join brings its sign again
		again: make(map[vote.SessionID]time.Time),
	}
}

// note takes a sign: m claims a name that another life has. It never blocks.
func (n *namesakes) note(m Member) {
	select {
	case n.signs <- m:
	default:
	}
}

// run works until ctx ends.
func (n *namesakes) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-n.signs:
			if !time.Now().Before(n.again[idOf(m)]) {
				n.look(ctx, m)
			}
		}
	}
}

func (n *namesakes) look(ctx context.Context, m Member) {
	elder, ours := m, m.Name == n.self.Node
	if !ours {
		var ok bool
		if elder, ok = n.listed(m.Name); !ok || elder.Life == m.Life || elder.State != Alive {
			return // settled meanwhile
		}
	}
	asking, cancel := context.WithTimeout(ctx, greetMax)
	alive := n.answers(asking, elder)
	cancel()
	if ctx.Err() != nil {
		return
	}
	if len(n.again) >= livesMax {
		clear(n.again)
	}
	pause := doubtAgain
	switch {
	case ours && alive:
		pause = conflictAgain
		n.log.Error("another live process has this node's name: names must be unique, so stop one of the two",
			"name", n.self.Node, "life", lifeText(n.self.Life), "other_life", lifeText(m.Life), "other_addr", m.Addr)
		n.tell(Event{Member: m, Kind: NameConflict})
	case ours:
		n.log.Debug("peers remember another life of this node, which doesn't answer", "life", lifeText(m.Life), "addr", m.Addr)
		n.stale()
	case alive:
		pause = conflictAgain
		n.log.Warn("two live processes have one name: names must be unique, so stop one of the two",
			"name", m.Name, "life", lifeText(elder.Life), "addr", elder.Addr, "other_life", lifeText(m.Life), "other_addr", m.Addr)
	default:
		n.rumour(m, elder.Life)
	}
	n.again[idOf(m)] = time.Now().Add(pause)
}

func idOf(m Member) vote.SessionID { return vote.SessionID{Node: m.Name, Life: m.Life} }
