// Package node makes one deterministic node of a requester and a voter: it is told what happened and when, and returns what to
// send and what to tell the application. Production and simulator run this same code.
package node

import (
	"fmt"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/lease"
	"github.com/lockmesh/lockmesh/quorum"
)

// Config is what a node must know. All nodes of a mesh agree on Voters and MaxTTL.
type Config struct {
	Name   vote.NodeID
	Life   vote.Life     // new at each start, never zero
	Voters []vote.NodeID // all of them; the founders, where the electorate follows the living
	TTL    time.Duration // of this node's sessions
	MaxTTL time.Duration
	Alone  bool // no lease is passed on among the callers of this node; to compare with
	ToAll  bool // no voter is spared; see quorum.Config

	Following *Following // nil where the electorate is fixed
}

// Node is one node of the mesh. Its owner calls it from one goroutine at a time; it starts none, reads no clock and does no I/O.
type Node struct {
	self  vote.SessionID
	req   *quorum.Requester
	voter *lease.Voter // nil on a node that can't be in the electorate
	following
	out   []vote.Outbound
	local []vote.Message                 // what the requester and the voter of this node have to say to each other
	tap   func(vote.Conn, *vote.Message) // see Tap

	spare      []vote.Outbound // empty, and its room is cleared, as are the others
	spareSaid  []vote.Outbound
	spareLocal []vote.Message
}

// New returns a node that starts its life now; if it is a voter, quietly.
func New(cfg Config, now vote.Now) (*Node, error) {
	electorate, err := quorum.Fixed(cfg.Voters)
	if err != nil {
		return nil, err
	}
	switch {
	case cfg.Name == "":
		return nil, fmt.Errorf("a node needs a name")
	case cfg.Life == 0:
		return nil, fmt.Errorf("life 0 of node %q: a life is a random number other than zero", cfg.Name)
	case cfg.TTL < vote.MinTTL || cfg.TTL > cfg.MaxTTL:
		return nil, fmt.Errorf("TTL %v: it must be at least %v and at most the mesh's maximum of %v", cfg.TTL, vote.MinTTL, cfg.MaxTTL)
	}
	n := &Node{self: vote.SessionID{Node: cfg.Name, Life: cfg.Life}}
	if cfg.Following != nil {
		n.follow(&cfg, now)
		return n, nil
	}
	n.req = quorum.New(quorum.Config{Self: n.self, Electorate: electorate, TTL: cfg.TTL, Alone: cfg.Alone, ToAll: cfg.ToAll}, now)
	for _, v := range electorate.Voters {
		if v.Name == cfg.Name {
			n.voter = lease.New(lease.Config{Self: n.self, Electorate: electorate, MaxTTL: cfg.MaxTTL}, now)
			n.req.Link(now, vote.LocalConn, n.self)
		}
	}
	n.settle(now)
	return n, nil
}

// Lock asks for a key. The outcome comes as an event with the number returned. It fails with quorum.ErrBusy only.
func (n *Node) Lock(now vote.Now, ask quorum.Ask) (vote.Number, error) {
	num, err := n.req.Lock(now, ask)
	n.settle(now)
	return num, err
}

// Lapse is Release for a lease that its holder has lost; see [quorum.Requester.Lapse].
func (n *Node) Lapse(now vote.Now, num vote.Number) {
	n.req.Lapse(now, num)
	n.settle(now)
}

// Share turns an exclusive lease into a shared one; see [quorum.Requester.Share].
func (n *Node) Share(now vote.Now, num vote.Number) bool {
	ok := n.req.Share(now, num)
	n.settle(now)
	return ok
}

// Set gives a request or lease a value; see [quorum.Requester.Set].
func (n *Node) Set(now vote.Now, num vote.Number, value []byte) uint64 {
	version := n.req.Set(now, num, value)
	n.settle(now)
	return version
}

// Look asks who holds a key and who waits for it; see [quorum.Requester.Look].
func (n *Node) Look(now vote.Now, key vote.Key) uint64 {
	nonce := n.req.Look(now, key)
	n.settle(now)
	return nonce
}

// LookAll asks the same of all keys that begin with a prefix; see [quorum.Requester.LookAll].
func (n *Node) LookAll(now vote.Now, prefix vote.Key) uint64 {
	nonce := n.req.LookAll(now, prefix)
	n.settle(now)
	return nonce
}

// Revoke has whoever holds a key asked to give it back; see [quorum.Requester.Revoke].
func (n *Node) Revoke(now vote.Now, key vote.Key, why string) uint64 {
	nonce := n.req.Revoke(now, key, why)
	n.settle(now)
	return nonce
}

// Watch has voters tell what happens to keys; see [quorum.Requester.Watch].
func (n *Node) Watch(now vote.Now, key vote.Key, prefix bool) uint64 {
	nonce := n.req.Watch(now, key, prefix)
	n.settle(now)
	return nonce
}

// Electorate returns who votes.
func (n *Node) Electorate() quorum.Electorate { return n.req.Electorate() }

// Unwatch ends a watch.
func (n *Node) Unwatch(now vote.Now, nonce uint64) {
	n.req.Unwatch(now, nonce)
	n.settle(now)
}

// Release ends a request, granted or not. quorum.EventReleased follows, unless the request had ended before.
func (n *Node) Release(now vote.Now, num vote.Number) {
	n.req.Release(now, num)
	n.settle(now)
}

// Link says that a connection which we opened to a voter is up; both sides know each other's name and life.
func (n *Node) Link(now vote.Now, conn vote.Conn, voter vote.SessionID) {
	n.linked(now, conn, voter)
	n.settle(now)
}

// Unlink says that a connection is gone, whoever opened it.
func (n *Node) Unlink(now vote.Now, conn vote.Conn) {
	n.req.Unlink(now, conn)
	n.unlinked(now, conn)
	if n.voter != nil {
		n.route(n.voter.Unlink(now, conn, n.spare[:0]))
	}
	n.settle(now)
}

// DialFailed says that no connection to a voter can be had for now.
func (n *Node) DialFailed(now vote.Now, voter vote.NodeID, why string) {
	n.req.DialFailed(now, voter, why)
	n.settle(now)
}

// Refused says that a voter's handshake turned us away; ReasonNone takes it back.
func (n *Node) Refused(now vote.Now, voter vote.NodeID, why vote.Reason, text string) {
	n.req.Refused(now, voter, why, text)
	n.settle(now)
}

// Deliver takes in a message that came over a connection from a peer.
func (n *Node) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	n.deliver(now, conn, from, m)
	n.settle(now)
}

func (n *Node) deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	n.hearElected(now, conn, m)
	switch {
	case m.Kind.Elects() || m.Kind == vote.KindRefused && m.Reason == vote.ReasonOldCopy:
		n.hearElecting(now, conn, from, m)
	case m.Kind.ToVoter() && n.voter != nil:
		n.route(n.voter.Step(now, conn, from, m, n.spare[:0]))
	case m.Kind.ToVoter():
		n.out = append(n.out, vote.Outbound{Conn: conn, Message: vote.Message{
			Kind: vote.KindRefused, Stream: m.Stream, Reason: vote.ReasonNotVoter,
		}})
	case m.Kind == vote.KindTell:
		if n.voter != nil {
			n.route(n.voter.Told(now, from.Node, m, n.spare[:0]))
		}
	default:
		n.req.Deliver(now, conn, from, m)
	}
}

// Tick lets time pass.
func (n *Node) Tick(now vote.Now) {
	if n.voter != nil {
		n.route(n.voter.Tick(now, n.spare[:0]))
		if nonce, ask := n.voter.Asking(now); ask {
			n.req.Ask(now, nonce)
		}
	}
	n.req.Tick(now)
	if n.elect != nil {
		n.standing().Tick(now)
	}
	n.settle(now)
}

// Next returns how long from now Tick has something to do; zero or less means now.
func (n *Node) Next(now vote.Now) time.Duration {
	d := n.req.Next().Sub(now.Fast)
	if n.voter != nil {
		d = min(d, n.voter.Next().Sub(now.Slow))
	}
	if n.elect != nil {
		d = min(d, n.elect.Next().Sub(now.Slow))
	}
	return d
}

// Drain appends what is to be sent and what is to be told, in order, and forgets it. Lists that are empty it may keep for their room, and return others:
// words and events are large, and one that is built is not to be copied more often than needed.
func (n *Node) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	if len(out) == 0 {
		out, n.out = n.out, roomOf(out)
	} else {
		out = append(out, n.out...)
		clear(n.out)
		n.out = n.out[:0]
	}
	if len(ev) == 0 {
		return out, n.req.Told(roomOf(ev))
	}
	told := n.req.Told(nil)
	return out, append(ev, told...)
}

// Why tells what stands between a pending request and its grant.
func (n *Node) Why(now vote.Now, num vote.Number) quorum.Wait { return n.req.Why(now, num) }

// Voters returns every voter as it looks from here, in order of names.
func (n *Node) Voters(now vote.Now) []quorum.VoterState { return n.req.Voters(now) }

// Ready reports whether a majority of the voters answers this node and counts.
func (n *Node) Ready() bool { return n.req.Ready() }

// Quiet returns for how much longer this node's own votes don't count; zero when they do, or when it has none.
func (n *Node) Quiet() time.Duration {
	if n.voter == nil || n.elect != nil && !n.elect.Votes() {
		return 0
	}
	return n.voter.Quiet()
}

// Seat returns the number by which voters know what a caller's number stands for; see [quorum.Requester.Seat].
func (n *Node) Seat(num vote.Number) vote.Number { return n.req.Seat(num) }

// Requester returns the node's requester, for checks and figures.
func (n *Node) Requester() *quorum.Requester { return n.req }

// Voter returns the node's voter, for checks and figures; nil on a node that isn't in the electorate.
func (n *Node) Voter() *lease.Voter { return n.voter }

// route takes what the voter wants sent. What is meant for this node's own requester waits for its turn.
func (n *Node) route(out []vote.Outbound) {
	for i := range out {
		if n.tap != nil && !out[i].Close {
			n.tap(out[i].Conn, &out[i].Message)
		}
		n.post(&out[i])
	}
	clear(out)
	n.spare = roomOf(out)
}

// roomMax is for how many words a list keeps its room: some hundred kilobytes. A statement of a million leases is said once in a while, and isn't to take
// its room for ever.
const roomMax = 1024

// roomOf returns a list's room, to be used again.
func roomOf[T any](list []T) []T {
	if cap(list) > roomMax {
		return nil
	}
	return list[:0]
}

func (n *Node) post(o *vote.Outbound) {
	switch {
	case o.Conn != vote.LocalConn:
		n.out = append(n.out, *o)
	case !o.Close: // the link to ourselves can't be closed
		n.local = append(n.local, o.Message)
	}
}

// settle delivers what this node's requester and voter have to say to each other, over the same path as everyone else's words,
// until both are silent; then it collects what others are to be told. Each local exchange is a bounded conversation: a request
// is promised, confirmed, inquired of or released once by each cause.
func (n *Node) settle(now vote.Now) {
	for {
		n.collect()
		n.electorates(now)
		if n.req.NameTaken() && n.voter != nil { // while two processes bear our name, neither may be sure that it is the voter
			n.route(n.voter.Withdraw(now, n.spare[:0]))
		}
		if len(n.local) == 0 {
			break
		}
		batch := n.local
		n.local = n.spareLocal
		for i := range batch {
			if n.tap != nil && batch[i].Kind.ToVoter() {
				n.tap(vote.LocalConn, &batch[i])
			}
			n.deliver(now, vote.LocalConn, n.self, &batch[i])
			n.collect()
		}
		clear(batch)
		n.spareLocal = roomOf(batch)
	}
	if n.voter == nil {
		return
	}
	for _, text := range n.voter.Alarms() {
		n.req.Alarm(text)
	}
	if n.elect != nil {
		for _, text := range n.elect.Alarms() {
			n.req.Alarm(text)
		}
	}
}

// collect takes what the requester wants sent. What it wants told stays with it until it is drained.
func (n *Node) collect() {
	out := n.req.Said(n.spareSaid)
	for i := range out {
		n.post(&out[i])
	}
	clear(out)
	n.spareSaid = roomOf(out)
}
