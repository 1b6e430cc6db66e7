package lockmesh

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Status is this node's view of the mesh at one moment. Others may see it otherwise. The caller owns it.
type Status struct {
	// Name is this node's name.
	Name string
	// Life tells this start of the node from its others. It is random.
	Life uint64
	// Addr is where others reach this node, host:port.
	Addr string
	// Closed says that the node has ended. What follows is then empty, except the members as they were last seen.
	Closed bool
	// Members are the nodes that gossip knows, this one among them, by name. They are hints: nothing rests on them.
	Members []MemberStatus
	// Electorate is who grants locks.
	Electorate ElectorateStatus
	// Held are the leases that this node holds, by key.
	Held []LeaseStatus
	// Waiting are the requests of this node that are not granted yet, the longest wait first.
	Waiting []WaitStatus
}

// MemberStatus is one node as gossip sees it.
type MemberStatus struct {
	Name string
	// Addr is where it says it can be reached, host:port.
	Addr string
	// State is "alive", "failed" (it stopped answering) or "left" (it said goodbye).
	State string
	// Life tells one start of the node from another; zero when it is unknown.
	Life uint64
}

// ElectorateStatus is the electorate as this node sees it.
type ElectorateStatus struct {
	// Voters are all voters, by name.
	Voters []VoterStatus
	// Majority is how many voters decide.
	Majority int
	// Counting is how many voters answer this node and count.
	Counting int
	// Ready says that those are a majority, so locks can be granted.
	Ready bool

	// Following says that the electorate follows the living: [Config].StateDir is set. What is below is empty otherwise.
	Following bool
	// Version counts the electorates, from 1; zero while this node knows of none.
	Version uint64
	// Joint says that the electorate is being changed, and that a majority of the old voters is needed as well as one of the new. Voters are then
	// all of both, and Majority is of the larger half.
	Joint bool
	// Old are the names of the voters that it is changed from, while it is joint; New are those that it is changed to.
	Old, New []string
	// Voter says that this node is one of the voters.
	Voter bool
	// StandBy are the nodes that could be voted in if there were need or room, by name, as far as this node is a voter and knows.
	StandBy []string
	// Change says who is being voted in or out, and why that waits; before the first electorate is known, what for. Empty if nothing changes.
	Change string
	// Trouble says why this node can't take part in changes; empty if it can. It goes on voting on locks.
	Trouble string
	// Lost says why no majority may ever come back, and what an operator has to do then; empty if there is one, or may well be. See [Mesh.Refound].
	Lost string
	// StateDir is the directory that this node keeps its part in, and DirID the identity that was drawn when the directory was first used: a node that
	// has lost its directory comes back with another.
	StateDir string
	DirID    uint64
	// Stored is the version that is in the directory, by which this node votes. It is behind Version while the disk is at work.
	Stored uint64
}

// VoterState says how a voter looks from this node.
type VoterState string

// The states of a voter.
const (
	// VoterReachable : it answers, and its votes count.
	VoterReachable VoterState = "reachable"
	// VoterQuiet : it answers, but has started not long ago, and its votes don't count yet.
	VoterQuiet VoterState = "quiet"
	// VoterConnecting : nothing is known yet, or the connection has just broken.
	VoterConnecting VoterState = "connecting"
	// VoterUnreachable : it can't be reached. It is tried again and again.
	VoterUnreachable VoterState = "unreachable"
	// VoterRefused : it turns this node away.
	VoterRefused VoterState = "refused"
	// VoterBehind : it answers, but goes by an electorate that is over, since it can't write its state directory.
	VoterBehind VoterState = "behind"
)

// VoterStatus is one voter as this node sees it.
type VoterStatus struct {
	Name  string
	State VoterState
	// Quiet is for how much longer a quiet voter won't count, at least.
	Quiet time.Duration
	// Text says in a few words what its state is and why.
	Text string
	// Drift tells how its clock was seen to gain on this node's by more than exclusion may assume, or that this machine was paused unseen.
	// Empty as long as all is well.
	Drift string
}

// LeaseStatus is one lease that this node holds.
type LeaseStatus struct {
	Key      string
	Token    uint64
	Deadline time.Time
}

// WaitStatus is one request of this node that waits.
type WaitStatus struct {
	Key string
	// Since is when it was asked for, by the wall clock.
	Since time.Time
	// Text says what keeps it waiting.
	Text string
}

// Status returns this node's view of the mesh. It costs as much as there are leases and requests here.
func (m *Mesh) Status() Status {
	gave := make(chan Status, 1)
	s := Status{Closed: true}
	if m.loop.box.post(false, func(now vote.Now) { gave <- m.loop.status(now) }) {
		select {
		case s = <-gave:
		case <-m.loop.done:
		}
	}
	s.Name, s.Life, s.Addr = m.Name(), uint64(m.self.Life), m.Addr()
	for _, g := range m.group.Members() {
		s.Members = append(s.Members, MemberStatus{Name: string(g.Name), Addr: g.Addr, State: g.State.String(), Life: uint64(g.Life)})
	}
	slices.SortFunc(s.Members, func(a, b MemberStatus) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Held, func(a, b LeaseStatus) int { return cmp.Compare(a.Key, b.Key) })
	return s
}

func (l *loop) status(now vote.Now) Status {
	s := Status{Electorate: l.electorateStatus(now)}
	for _, lease := range l.held.m {
		s.Held = append(s.Held, LeaseStatus{Key: lease.Key(), Token: lease.Token(), Deadline: lease.Deadline()})
	}
	calls := make([]*call, 0, len(l.calls.m))
	for _, c := range l.calls.m {
		calls = append(calls, c)
	}
	slices.SortFunc(calls, func(a, b *call) int { return cmp.Compare(a.number, b.number) })
	for _, c := range calls {
		why := l.explain(now, l.node.Why(now, c.number))
		text := why.Text
		if why.Reason == quorum.WaitHeld {
			text = string(ErrHeld.(sentinel)) + "; " + text
		}
		s.Waiting = append(s.Waiting, WaitStatus{Key: string(c.Key), Since: time.UnixMicro(int64(c.since)), Text: text})
	}
	return s
}

// String prints the status in a few lines, for people.
func (s Status) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "node %s (life %s) at %s", s.Name, lifeText(vote.Life(s.Life)), s.Addr)
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
	return b.String()
}

// majority is how many of n voters decide.
func majority(n int) int { return n/2 + 1 }

// census says how many voters count and what is with the others: "1 of 3 voters counts: b quiet for 6.2s, c unreachable".
func census(voters []quorum.VoterState) string {
	var missing []string
	for _, v := range voters {
		if v.State != quorum.Reachable {
			missing = append(missing, v.String())
		}
	}
	counting := len(voters) - len(missing)
	verb := "count"
	if counting == 1 {
		verb = "counts"
	}
	text := fmt.Sprintf("%d of %d voters %s", counting, len(voters), verb)
	if len(missing) > 0 {
		text += ": " + strings.Join(missing, ", ")
	}
	return text
}

func lifeText(l vote.Life) string { return strconv.FormatUint(uint64(l), 16) }
