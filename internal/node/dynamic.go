package node

import (
	"errors"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/mismatch"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/lease"
	"github.com/lockmesh/lockmesh/quorum"
)

// Dynamic is the configuration of a node with dynamic membership.
type Dynamic struct {
	State vote.DiskState // the content of the state directory; at least Dir, Name and Mesh
	Fresh bool           // the directory's identity was created at this start
	// MayFound: if the directory is empty, the node bootstraps the electorate with the other
	// founders.
	MayFound  bool
	MaxVoters int // zero: electorate.MaxVoters
	// RegisterTerm is set if the mesh has a register; see electorate.Config.
	RegisterTerm time.Duration
	// FromFixed: the node is being converted from the fixed list Config.Voters. State comes from
	// [electorate.Convert].
	FromFixed bool
}

// dynamicState is the state of a node with dynamic membership. The requester applies the newest
// electorate known to be decided; the voter applies the newest electorate in the directory, since
// the voter's acknowledgements must outlast the process.
type dynamicState struct {
	elect *electorate.Machine // nil if the electorate is fixed
	voted lease.Config        // of the present voter
	birth vote.Birth
	links map[vote.NodeID]dialed
	trust bool
	// counts is until when the voter's votes may count, as told to the voter.
	counts vote.Instant
	said   []vote.Outbound
}

// dialed is a connection dialed by this node.
type dialed struct {
	conn vote.Conn
	peer vote.SessionID
}

func (n *Node) startDynamic(cfg *Config, now vote.Now) {
	f := cfg.Dynamic
	n.links, n.trust, n.birth, n.converting = make(map[vote.NodeID]dialed), true, cfg.Birth, f.FromFixed
	n.elect = electorate.New(electorate.Config{
		Self: n.self, Founders: cfg.Voters, MayFound: f.MayFound, MaxVoters: f.MaxVoters, MaxTTL: cfg.MaxTTL,
		Expect: cfg.Birth.Expect, MinVoters: cfg.Birth.MinVoters, RegisterTerm: f.RegisterTerm,
		Frozen: f.FromFixed,
	}, f.State, now)
	n.req = quorum.New(quorum.Config{Self: n.self, Electorate: f.State.Electorate, Dynamic: true, TTL: cfg.TTL, MaxTTL: cfg.MaxTTL, NoLocalQueue: cfg.NoLocalQueue, BroadcastAll: cfg.BroadcastAll, NoReceipts: cfg.NoReceipts, ReportRenewals: cfg.Renewals, TickBudget: cfg.Turn}, now)
	n.begin(now, lease.Config{Self: n.self, Dir: f.State.Dir, Electorate: f.State.Electorate, MaxTTL: cfg.MaxTTL, Fresh: f.Fresh})
	n.guard = mismatch.New(n.self, cfg.terms(), now)
	n.linkNew(now)
	n.settle(now)
}

// begin begins a new voter, which knows nothing of the voter before.
func (n *Node) begin(now vote.Now, cfg lease.Config) {
	n.voter, n.voted, n.counts = lease.New(cfg, now), cfg, vote.Never
	n.count(now)
	if n.obeys.Holds() {
		n.route(n.voter.Hold(now, true, n.spare[:0]))
	}
}

// count tells the voter until when its votes may count.
func (n *Node) count(now vote.Now) {
	if until := n.elect.Counts(); until != n.counts {
		n.counts = until
		n.route(n.voter.SetTerm(now, until, n.spare[:0]))
		if until > now.Fast {
			// The voter may have refused this node's own session, like all others.
			n.req.AckEpoch(now, vote.LocalConn, n.elect.Stored().Version)
		}
	}
}

// rebirth ends the node's voter and leases, and begins a new voter, once the machine has taken
// another identity. To other nodes this is as if the process had crashed, and another had started:
// the machine closes all connections.
func (n *Node) rebirth(now vote.Now) {
	dir := n.elect.Elector().Dir
	if dir == n.voted.Dir {
		return
	}
	clear(n.links)
	n.req.Abandon(now)
	n.guard.IdentityRenewed(now)
	n.obeys = n.guard.Phase()
	n.begin(now, lease.Config{Self: n.self, Dir: dir, MaxTTL: n.voted.MaxTTL, Fresh: true})
}

// enter has the voter apply the first electorate that it knows of.
//
// The founders of a mesh that is born by count are quiet for a maximum TTL, and take the wall clock
// for the lowest token: an earlier mesh may have granted leases up to the birth. Only a joint
// electorate tells a voter that the voter was voted in and is no founder. With Expect 1 no other
// process has a lease.
func (n *Node) enter(now vote.Now, e *vote.Electorate) bool {
	self := vote.Elector{Name: n.self.Node, Dir: n.voted.Dir}
	if n.birth.Expect == 0 || n.birth.Alone() || n.voter.ConfigEpoch() != 0 || !slices.Contains(e.Deciding(), self) {
		return false
	}
	cfg := n.voted
	cfg.Electorate, cfg.Fresh, cfg.Born = *e, false, true
	n.begin(now, cfg)
	return true
}

// refreshElect reports the state of this node's voter to the machine, and returns the machine.
func (n *Node) refreshElect() *electorate.Machine {
	top, counting := n.voter.Top()
	n.elect.SetOwnVoter(electorate.OwnVoter{Top: top, Limit: n.voter.Limit(), Counting: counting})
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
	n.refreshElect().Link(now, conn, voter)
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

// linkNew tells the requester of the existing connections to new voters.
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

// receiveEpoch notes the version of the electorate in a message, so that a sender with an older
// version is sent the newest electorate.
func (n *Node) receiveEpoch(now vote.Now, conn vote.Conn, m *vote.Message) {
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
	n.elect.NoteVersion(now, conn, m.Epoch)
}

func (n *Node) receiveConsensus(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if n.elect == nil {
		return // our electorate is fixed; the handshake keeps dynamic nodes out
	}
	if m.Kind == vote.KindRefused {
		n.elect.Distrust(now, from.Node)
		return
	}
	n.refreshElect().Receive(now, conn, from, m)
	if m.Kind == vote.KindElectorate {
		n.reconfigure(now)
		n.req.AckEpoch(now, conn, m.Epoch)
	}
}

// electorates brings requester and voter up to date with the electorates decided and stored.
func (n *Node) electorates(now vote.Now) {
	if n.elect == nil {
		return
	}
	n.reconfigure(now)
	n.part(now)
	stored, trust := n.elect.Stored(), n.elect.Trusted()
	if stored.Version != n.voter.ConfigEpoch() || trust != n.trust {
		n.trust = trust
		recovered := n.birth.Expect == 0 && electorate.RecoveredBetween(n.voter.ConfigEpoch(), stored.Version)
		if !n.enter(now, stored) {
			n.route(n.voter.Reconfigure(now, *stored, trust, n.spare[:0]))
		}
		// No voter has decided on the recovered electorate, so earlier promises may stand for
		// another maximum TTL.
		if recovered {
			n.route(n.voter.Withdraw(now, n.spare[:0]))
		}
		n.req.AckEpoch(now, vote.LocalConn, stored.Version)
		n.refreshElect()
	}
	n.count(now)
	n.collect()
	out := n.elect.Drain(n.said[:0])
	for i := range out {
		n.post(&out[i])
	}
	clear(out)
	n.said = out[:0]
}

// reconfigure makes the requester count votes under the newest electorate known to this node.
func (n *Node) reconfigure(now vote.Now) {
	n.rebirth(now)
	if known := n.elect.Known(); known.Version > n.req.Electorate().Version() {
		n.req.Reconfigure(now, known)
		n.linkNew(now)
	}
}

// Elector returns this node as a voter under dynamic membership.
func (n *Node) Elector() vote.Elector { return n.elect.Elector() }

// Known returns the newest electorate known to be decided; nil if the electorate is fixed. The
// caller must not change the electorate.
func (n *Node) Known() *vote.Electorate {
	if n.elect == nil {
		return nil
	}
	return n.elect.Known()
}

// Gossip takes in the full list of peers known to gossip. The list is only a hint.
func (n *Node) Gossip(now vote.Now, all []electorate.Seen) {
	if n.elect != nil {
		n.refreshElect().Gossip(now, all)
		n.settle(now)
	}
}

// Saves returns the states to store, synced, in the directory now: none or one. A call of Saved
// must follow.
func (n *Node) Saves() []vote.DiskState {
	if n.elect == nil {
		return nil
	}
	return n.elect.Saves()
}

// Saved reports the result of a save. An empty text means that the state is in the directory,
// synced.
func (n *Node) Saved(now vote.Now, writes uint64, failed string) {
	if n.elect != nil {
		n.refreshElect().Saved(now, writes, failed)
		n.settle(now)
	}
}

// RegisterCalls returns the calls of the register to make now: none or one. A call of Registered
// must follow.
func (n *Node) RegisterCalls() []vote.RegisterCall {
	if n.elect == nil {
		return nil
	}
	return n.elect.RegisterCalls()
}

// Registered reports the result of a register call.
func (n *Node) Registered(now vote.Now, result vote.RegisterResult) {
	if n.elect != nil {
		n.refreshElect().Registered(now, result)
		n.settle(now)
	}
}

// Wanted returns the nodes to which this node wants connections, in order of names: the voters, and
// the nodes needed for changes of the electorate.
func (n *Node) Wanted() []vote.NodeID {
	names := n.AppendWanted(nil)
	slices.Sort(names)
	return slices.Compact(names)
}

// AppendWanted appends what Wanted returns to dst, in no order; a name may occur twice.
func (n *Node) AppendWanted(dst []vote.NodeID) []vote.NodeID {
	if n.elect != nil {
		dst = n.elect.AppendWanted(dst)
	}
	for _, v := range n.req.Peers() {
		if v.Name != n.self.Node {
			dst = append(dst, v.Name)
		}
	}
	return dst
}

// ElectorateStatus returns the state of a dynamic electorate as seen by this node; false if the
// electorate is fixed.
func (n *Node) ElectorateStatus(now vote.Now) (electorate.Status, bool) {
	if n.elect == nil {
		return electorate.Status{}, false
	}
	st := n.elect.Status(now)
	n.addFixed(&st)
	return st, true
}

// LacksElectorate reports whether the electorate is dynamic and this node knows none.
func (n *Node) LacksElectorate() bool { return n.elect != nil && n.elect.Known().Version == 0 }

// IsBarred reports whether this node knows no electorate, and the register lets no mesh be born;
// see [electorate.Machine.IsBarred].
func (n *Node) IsBarred() bool { return n.elect != nil && n.elect.IsBarred() }

// MayMeshBeAlive reports whether the mesh of the register's record may be alive; see
// [electorate.Machine.MayMeshBeAlive].
func (n *Node) MayMeshBeAlive() bool { return n.elect != nil && n.elect.MayMeshBeAlive() }

// HasKnown reports whether this node knows an electorate, or has known one.
func (n *Node) HasKnown() bool { return n.elect != nil && n.elect.HasKnown() }

// Propose starts one ballot to change the electorate to the given voters, regardless of gossip; see
// [electorate.Machine.Propose]. Propose fails if the electorate is fixed.
func (n *Node) Propose(now vote.Now, voters []vote.Elector) error {
	if n.elect == nil {
		return errors.New("the electorate is fixed: the voters are those in the configuration")
	}
	err := n.refreshElect().Propose(now, voters)
	n.settle(now)
	return err
}

// Votes reports whether this node is a voter of the electorate that it knows.
func (n *Node) Votes() bool { return n.voter != nil && (n.elect == nil || n.elect.Votes()) }

// LeaveElectorate has this node voted out, if the other nodes can do without this voter.
func (n *Node) LeaveElectorate(now vote.Now) {
	if n.elect != nil {
		n.refreshElect().Leave(now)
		n.settle(now)
	}
}

// Recover recovers the electorate with the named nodes as the voters, at an operator's request; see
// [electorate.Machine.Recover]. Recover fails if the electorate is fixed.
func (n *Node) Recover(now vote.Now, names []vote.NodeID) error {
	if n.elect == nil {
		return errors.New("the electorate is fixed: the voters are those in the configuration")
	}
	top, _ := n.voter.Top()
	err := n.refreshElect().Recover(now, names, max(top, vote.TokenAt(now.Wall)+vote.Token(vote.Skew.Microseconds())))
	n.settle(now)
	return err
}
