package node

import (
	"cmp"
	"errors"
	"slices"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/lease"
	"github.com/lockmesh/lockmesh/quorum"
)

// Following is what a node must know whose electorate follows the living.
type Following struct {
	State     vote.State // what its directory holds; at least Dir, Name and Mesh
	Fresh     bool       // the directory's identity was made at this start
	Found     bool       // it is to found the electorate with the other founders, if the directory is empty
	MaxVoters int        // zero: electorate.MaxVoters
}

// following is what a node has where the electorate follows the living. The requester goes by the newest electorate that the node knows to be
// decided; the voter by the newest that is in the directory, since what it acknowledges must outlast it.
type following struct {
	elect *electorate.Machine // nil where the electorate is fixed
	links map[vote.NodeID]dialed
	trust bool
	said  []vote.Outbound
}

// dialed is a connection that we dialed.
type dialed struct {
	conn vote.Conn
	peer vote.SessionID
}

func (n *Node) follow(cfg *Config, now vote.Now) {
	f := cfg.Following
	n.links, n.trust = make(map[vote.NodeID]dialed), true
	n.elect = electorate.New(electorate.Config{
		Self: n.self, Founders: cfg.Voters, Found: f.Found, MaxVoters: f.MaxVoters, MaxTTL: cfg.MaxTTL,
	}, f.State, now)
	n.req = quorum.New(quorum.Config{Self: n.self, Electorate: f.State.Electorate, Following: true, TTL: cfg.TTL, Alone: cfg.Alone, ToAll: cfg.ToAll}, now)
	n.voter = lease.New(lease.Config{Self: n.self, Dir: f.State.Dir, Electorate: f.State.Electorate, MaxTTL: cfg.MaxTTL, Fresh: f.Fresh}, now)
	n.linkNew(now)
	n.settle(now)
}

// standing returns the machine, which knows how our voter stands.
func (n *Node) standing() *electorate.Machine {
	top, counting := n.voter.Top()
	n.elect.Stand(electorate.Standing{Top: top, Counting: counting})
	return n.elect
}

func (n *Node) linked(now vote.Now, conn vote.Conn, voter vote.SessionID) {
	if n.elect == nil {
		n.req.Link(now, conn, voter)
		return
	}
	if old, ok := n.links[voter.Node]; ok && old.conn != conn {
		n.out = append(n.out, vote.Outbound{Conn: old.conn, Close: true})
		n.unlinked(now, old.conn)
	}
	n.links[voter.Node] = dialed{conn, voter}
	n.standing().Link(now, conn, voter)
	if n.req.Knows(voter.Node) {
		n.req.Link(now, conn, voter)
	}
}

func (n *Node) unlinked(now vote.Now, conn vote.Conn) {
	if n.elect == nil {
		return
	}
	for name, l := range n.links {
		if l.conn == conn {
			delete(n.links, name)
		}
	}
	n.elect.Unlink(now, conn)
}

// linkNew tells the requester of the connections that there are to voters that are new.
func (n *Node) linkNew(now vote.Now) {
	for _, v := range n.req.Peers() {
		if n.req.Linked(v.Name) {
			continue
		}
		if v.Name == n.self.Node {
			n.req.Link(now, vote.LocalConn, n.self)
		} else if l, ok := n.links[v.Name]; ok {
			n.req.Link(now, l.conn, l.peer)
		}
	}
}

// hearElected notes which electorate goes with a word, so that whoever is behind is told.
func (n *Node) hearElected(now vote.Now, conn vote.Conn, m *vote.Message) {
	if n.elect == nil {
		return
	}
	switch m.Kind {
	case vote.KindAnswer:
		if !m.End {
			return
		}
	case vote.KindOpen, vote.KindRefresh, vote.KindAck, vote.KindPromise, vote.KindExtended, vote.KindRefused, vote.KindPoll, vote.KindReport, vote.KindElectorate:
	default:
		return
	}
	n.elect.Heard(now, conn, m.Elected)
}

func (n *Node) hearElecting(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if n.elect == nil {
		return // ours is fixed; the handshake keeps others out
	}
	if m.Kind == vote.KindRefused {
		n.elect.Distrust(now, from.Node)
		return
	}
	n.standing().Hear(now, conn, from, m)
	if m.Kind == vote.KindElectorate {
		n.reelect(now)
		n.req.Goes(now, conn, m.Elected)
	}
}

// electorates brings requester and voter up to date with what has been decided and stored.
func (n *Node) electorates(now vote.Now) {
	if n.elect == nil {
		return
	}
	n.reelect(now)
	stored, trust := n.elect.Stored(), n.elect.Trusted()
	if stored.Version != n.voter.Elected() || trust != n.trust {
		n.trust = trust
		refounded := electorate.Refounded(n.voter.Elected(), stored.Version)
		n.route(n.voter.Elect(now, *stored, trust, n.spare[:0]))
		if refounded { // nobody decided it, so what was promised before may stand for a maximum TTL yet
			n.route(n.voter.Withdraw(now, n.spare[:0]))
		}
		n.req.Goes(now, vote.LocalConn, stored.Version)
		n.standing()
	}
	n.collect()
	out := n.elect.Drain(n.said[:0])
	for i := range out {
		n.post(&out[i])
	}
	clear(out)
	n.said = out[:0]
}

func (n *Node) reelect(now vote.Now) {
	if known := n.elect.Known(); known.Version > n.req.Electorate().Version() {
		n.req.Reelect(now, known)
		n.linkNew(now)
	}
}

// Known returns the newest electorate that is known to be decided; nil where the electorate is fixed. The caller must not change it.
func (n *Node) Known() *vote.Electorate {
	if n.elect == nil {
		return nil
	}
	return n.elect.Known()
}

// Gossip takes in all that gossip knows of the others. It is a hint.
func (n *Node) Gossip(now vote.Now, all []electorate.Seen) {
	if n.elect != nil {
		n.standing().Gossip(now, all)
		n.settle(now)
	}
}

// Saves returns what is to be stored, synced, in the directory now; nothing or one state. Saved must follow.
func (n *Node) Saves() []vote.State {
	if n.elect == nil {
		return nil
	}
	return n.elect.Saves()
}

// Saved says what has become of a save; with an empty text, that it is in the directory, synced.
func (n *Node) Saved(now vote.Now, writes uint64, failed string) {
	if n.elect != nil {
		n.standing().Saved(now, writes, failed)
		n.settle(now)
	}
}

// Wanted returns the nodes to which connections are wanted, in order: the voters, and whom the electorate's changes need.
func (n *Node) Wanted() []vote.NodeID {
	var names []vote.NodeID
	if n.elect != nil {
		names = n.elect.Wanted()
	}
	for _, v := range n.req.Peers() {
		if v.Name != n.self.Node {
			names = append(names, v.Name)
		}
	}
	slices.SortFunc(names, cmp.Compare)
	return slices.Compact(names)
}

// ElectorateStatus tells how an electorate that follows the living looks from here; false where it is fixed.
func (n *Node) ElectorateStatus(now vote.Now) (electorate.Status, bool) {
	if n.elect == nil {
		return electorate.Status{}, false
	}
	return n.elect.Status(now), true
}

// LeaveElectorate has this node voted out, as far as the others can do without it.
func (n *Node) LeaveElectorate(now vote.Now) {
	if n.elect != nil {
		n.standing().Leave(now)
		n.settle(now)
	}
}

// Refound makes the named nodes the voters, on an operator's word; see [electorate.Machine.Refound]. It fails where the electorate is fixed.
func (n *Node) Refound(now vote.Now, names []vote.NodeID) error {
	if n.elect == nil {
		return errors.New("the electorate is fixed: it is what the configuration says")
	}
	top, _ := n.voter.Top()
	err := n.standing().Refound(now, names, max(top, vote.TokenAt(now.Wall)+vote.Token(vote.Skew.Microseconds())))
	n.settle(now)
	return err
}
