package node

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/mismatch"
	"github.com/lockmesh/lockmesh/internal/vote"
)

// guarded is the state with which a node that can vote keeps its voter from counting beside another
// configuration, or beside an older process with the same name.
type guarded struct {
	guard   *mismatch.Machine // nil on a node that can't vote
	obeys   mismatch.Phase    // the phase applied to the voter
	started vote.Instant
}

// Met takes in a meeting with another node that has proved its knowledge of the mesh's secret.
func (n *Node) Met(now vote.Now, s *vote.Sighting) {
	if n.guard == nil {
		return
	}
	n.guard.See(now, s)
	n.settle(now)
}

// Retire prepares for the end of the process. The voter stops counting, so the goodbye sent
// afterwards is true.
func (n *Node) Retire(now vote.Now) {
	if n.guard == nil {
		return
	}
	n.guard.Leave()
	n.settle(now)
}

// Account returns this node's report about itself to other nodes.
func (n *Node) Account(now vote.Now) vote.Account {
	a := vote.Account{Standing: vote.StandingNone, Up: now.Slow.Sub(n.started)}
	if n.guard != nil {
		a = n.guard.Account(now)
	}
	if e := n.Known(); e != nil {
		a.LongestTTL = e.QuietTime(0)
	}
	if n.elect != nil && !n.elect.Votes() && (a.Standing == vote.StandingQuiet || a.Standing == vote.StandingCounting && n.birth.Expect > 0) {
		a.Standing = vote.StandingNone
	}
	return a
}

// Refusal returns why this node's calls are refused, regardless of the voters' answers; empty if
// calls aren't refused.
func (n *Node) Refusal(now vote.Now) string {
	if n.guard == nil {
		return ""
	}
	return n.guard.Refusal(now)
}

// LinkRefusal returns why other nodes must look for this node's name elsewhere; empty if they
// should link with this process.
func (n *Node) LinkRefusal() string {
	if n.guard == nil {
		return ""
	}
	return n.guard.LinkRefusal()
}

// RefusedPeers returns the nodes with another configuration that were met recently or keep the
// voter from counting.
func (n *Node) RefusedPeers(now vote.Now) []mismatch.Refused {
	if n.guard == nil {
		return nil
	}
	return n.guard.Refused(now)
}

// HeldFor returns for how much longer another configuration keeps this node's votes from counting,
// at least; zero if no end is known.
func (n *Node) HeldFor(now vote.Now) time.Duration {
	if n.guard == nil {
		return 0
	}
	return n.guard.Remaining(now)
}

// inactive reports whether this node takes no part in the mesh, since its voter must not count.
func (n *Node) inactive() bool { return n.guard != nil && n.guard.Inactive() }

// obey applies the guard's phase to the voter.
func (n *Node) obey(now vote.Now) {
	if n.guard == nil {
		return
	}
	if n.guard.Concerned() {
		alive, counting, decides := n.req.Present()
		n.guard.Own(now, mismatch.Own{Alive: alive, Counting: counting, Decides: decides})
	}
	if n.voter.Counting() {
		n.guard.Counts(now)
	}
	phase := n.guard.Phase()
	if phase == n.obeys {
		return
	}
	was := n.obeys
	n.obeys = phase
	switch {
	case phase == mismatch.PhaseWithdrawn, phase == mismatch.PhaseDuplicate && was == mismatch.PhaseCounting:
		n.route(n.voter.GiveWay(now, n.spare[:0]))
		n.req.Forfeit(now)
	case phase.Holds():
		n.route(n.voter.Hold(now, true, n.spare[:0]))
	case was.Holds():
		n.route(n.voter.Hold(now, false, n.spare[:0]))
		if n.req.Knows(n.self.Node) && !n.req.Linked(n.self.Node) {
			// The node's own requester was refused like all other requesters.
			n.req.Link(now, vote.LocalConn, n.self)
		}
	}
	n.collect()
}
