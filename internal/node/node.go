// Package node combines a requester and a voter into a deterministic node: the node is told what
// happened and when, and returns the messages to send and the events for the application.
// Production and simulator run the same code.
package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/mismatch"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/lease"
	"github.com/lockmesh/lockmesh/quorum"
)

// Config is the configuration of a node. All nodes of a mesh agree on Voters, and in a fixed
// electorate on MaxTTL.
type Config struct {
	Name         vote.NodeID
	Incarnation  vote.Incarnation // new at each start, never zero
	Voters       []vote.NodeID    // all voters; under dynamic membership, the founders
	TTL          time.Duration    // of this node's sessions
	MaxTTL       time.Duration
	NoLocalQueue bool // no lease is handed off between the callers of this node; for comparison
	BroadcastAll bool // every request goes to all voters; see quorum.Config
	NoReceipts   bool // the node doesn't report received answers; see quorum.Config
	// The node reports renewals; see quorum.Config.
	Renewals bool
	Turn     int // how much work in pieces is done in a Tick; see quorum.Config

	Dynamic *Dynamic   // nil if the electorate is fixed
	Birth   vote.Birth // zero unless the mesh is born by count; then there are no Voters
}

// Node is a node of the mesh. Its owner makes one call at a time; the node starts no goroutine,
// reads no clock and does no I/O.
type Node struct {
	self  vote.SessionID
	req   *quorum.Requester
	voter *lease.Voter // nil on a node that can't be in the electorate
	dynamicState
	fromFixed
	guarded
	out []vote.Outbound
	// Messages between the requester and the voter of this node: those that are being delivered,
	// how many of them are, and those sent in the meantime.
	batch     []vote.Message
	delivered int
	local     []vote.Message
	tap       func(vote.Conn, *vote.Message) // see Tap
	work      uint64                         // see Work
	began     uint64                         // the work done when the call under way began

	spare       []vote.Outbound // empty, and its memory is zero, as with the other spare lists
	spareEvents []vote.Outbound
	spareLocal  []vote.Message
}

// New returns a node that starts its incarnation now; a voter starts in quarantine.
func New(cfg Config, now vote.Now) (*Node, error) {
	var electorate vote.Electorate
	if cfg.Birth.Expect == 0 {
		var err error
		if electorate, err = quorum.Fixed(cfg.Voters); err != nil {
			return nil, err
		}
	}
	switch {
	case cfg.Name == "":
		return nil, fmt.Errorf("a node needs a name")
	case cfg.Incarnation == 0:
		return nil, fmt.Errorf("incarnation 0 of node %q: an incarnation is a random number other "+
			"than zero", cfg.Name)
	case cfg.TTL < vote.MinTTL || cfg.TTL > cfg.MaxTTL:
		return nil, fmt.Errorf("TTL %v: it must be at least %v and at most the mesh's maximum of %v", cfg.TTL, vote.MinTTL, cfg.MaxTTL)
	}
	n := &Node{self: vote.SessionID{Node: cfg.Name, Incarnation: cfg.Incarnation}, guarded: guarded{started: now.Slow}}
	if cfg.Dynamic != nil {
		n.startDynamic(&cfg, now)
		return n, nil
	}
	n.req = quorum.New(quorum.Config{Self: n.self, Electorate: electorate, TTL: cfg.TTL, MaxTTL: cfg.MaxTTL, NoLocalQueue: cfg.NoLocalQueue, BroadcastAll: cfg.BroadcastAll, NoReceipts: cfg.NoReceipts, ReportRenewals: cfg.Renewals, TickBudget: cfg.Turn}, now)
	for _, v := range electorate.Voters {
		if v.Name == cfg.Name {
			n.voter = lease.New(lease.Config{Self: n.self, Electorate: electorate, MaxTTL: cfg.MaxTTL}, now)
			n.guard = mismatch.New(n.self, cfg.terms(), now)
			n.req.Link(now, vote.LocalConn, n.self)
		}
	}
	n.settle(now)
	return n, nil
}

// terms returns the part of the configuration required to be the same on all nodes.
func (c *Config) terms() vote.Terms {
	return vote.Terms{Voters: slices.Compact(slices.Sorted(slices.Values(c.Voters))), MaxTTL: c.MaxTTL, Dynamic: c.Dynamic != nil && !c.Dynamic.FromFixed, Birth: c.Birth}
}

// Lock requests a key. An event with the returned number reports the outcome. The only error is
// quorum.ErrBusy.
func (n *Node) Lock(now vote.Now, ask quorum.RequestOptions) (vote.Number, error) {
	num, err := n.req.Lock(now, ask)
	n.settle(now)
	return num, err
}

// Lapse is Release for a lease that its holder considers lost; see [quorum.Requester.Lapse].
func (n *Node) Lapse(now vote.Now, num vote.Number) {
	n.req.Lapse(now, num)
	n.settle(now)
}

// Downgrade turns an exclusive lease into a shared lease; see [quorum.Requester.Downgrade].
func (n *Node) Downgrade(now vote.Now, num vote.Number) bool {
	ok := n.req.Downgrade(now, num)
	n.settle(now)
	return ok
}

// SetValue gives a request or lease a value; see [quorum.Requester.SetValue].
func (n *Node) SetValue(now vote.Now, num vote.Number, value []byte) uint64 {
	version := n.req.SetValue(now, num, value)
	n.settle(now)
	return version
}

// EndKeepingKey tells the voters that a lease is over while its request keeps the key; see
// [quorum.Requester.EndKeepingKey].
func (n *Node) EndKeepingKey(now vote.Now, num vote.Number, left time.Duration, lost bool) bool {
	ok := n.req.EndKeepingKey(now, num, left, lost)
	n.settle(now)
	return ok
}

// Query asks who holds a key and who waits for it; see [quorum.Requester.Query].
func (n *Node) Query(now vote.Now, key vote.Key) uint64 {
	nonce := n.req.Query(now, key)
	n.settle(now)
	return nonce
}

// Inspect does the same as Query, until the holders of the key are certain; see
// [quorum.Requester.Inspect].
func (n *Node) Inspect(now vote.Now, key vote.Key) uint64 {
	nonce := n.req.Inspect(now, key)
	n.settle(now)
	return nonce
}

// Page does the same as Inspect for a part of the keys with a prefix; see [quorum.Requester.Page].
func (n *Node) Page(now vote.Now, prefix, after vote.Key, most int) uint64 {
	nonce := n.req.Page(now, prefix, after, most)
	n.settle(now)
	return nonce
}

// Unanswered names the voters yet to answer a query; see [quorum.Requester.Unanswered].
func (n *Node) Unanswered(now vote.Now, nonce uint64) string { return n.req.Unanswered(now, nonce) }

// InspectForWatch queries the state with which a watch begins; see
// [quorum.Requester.InspectForWatch].
func (n *Node) InspectForWatch(now vote.Now, key vote.Key, prefix bool) uint64 {
	nonce := n.req.InspectForWatch(now, key, prefix)
	n.settle(now)
	return nonce
}

// Revoke asks the holders of a key to give it back; see [quorum.Requester.Revoke].
func (n *Node) Revoke(now vote.Now, key vote.Key, reason string) uint64 {
	nonce := n.req.Revoke(now, key, reason)
	n.settle(now)
	return nonce
}

// Evict makes the node with a key's lease of the given token end the lease; see
// [quorum.Requester.Evict].
func (n *Node) Evict(now vote.Now, key vote.Key, token vote.Token, reason string) uint64 {
	nonce := n.req.Evict(now, key, token, reason)
	n.settle(now)
	return nonce
}

// Extend moves the end of a lease with an end of its own; see [quorum.Requester.Extend].
func (n *Node) Extend(now vote.Now, num vote.Number, d, ends time.Duration) (held bool, confirmed vote.Instant) {
	held, confirmed = n.req.Extend(now, num, d, ends)
	n.settle(now)
	return held, confirmed
}

// Watch asks the voters to report the events of keys; see [quorum.Requester.Watch].
func (n *Node) Watch(now vote.Now, key vote.Key, prefix bool) uint64 {
	nonce := n.req.Watch(now, key, prefix)
	n.settle(now)
	return nonce
}

// Electorate returns the newest electorate known to this node.
func (n *Node) Electorate() quorum.Electorate { return n.req.Electorate() }

// Unwatch ends a watch.
func (n *Node) Unwatch(now vote.Now, nonce uint64) {
	n.req.Unwatch(now, nonce)
	n.settle(now)
}

// Release ends a request, granted or not. quorum.EventReleased follows, unless the request had
// ended before.
func (n *Node) Release(now vote.Now, num vote.Number) {
	n.req.Release(now, num)
	n.settle(now)
}

// Link reports that a connection dialed by this node to a voter is up; both sides know each other's
// name and incarnation.
func (n *Node) Link(now vote.Now, conn vote.Conn, voter vote.SessionID) {
	if !n.isFixed(conn) || n.takesFixed() {
		n.linked(now, conn, voter)
	}
	n.settle(now)
}

// Unlink reports that a connection is closed; either side may have dialed the connection.
func (n *Node) Unlink(now vote.Now, conn vote.Conn) {
	n.unlink(now, conn)
	delete(n.fixed, conn)
	n.settle(now)
}

func (n *Node) unlink(now vote.Now, conn vote.Conn) {
	n.req.Unlink(now, conn)
	n.unlinked(now, conn)
	if n.voter != nil {
		n.route(n.voter.Unlink(now, conn, n.spare[:0]))
	}
}

// DialFailed reports that no connection to a voter is available for now.
func (n *Node) DialFailed(now vote.Now, voter vote.NodeID, reason string) {
	n.req.DialFailed(now, voter, reason)
	n.settle(now)
}

// Refused reports that a voter refused this node in the handshake; ReasonNone ends the refusal.
func (n *Node) Refused(now vote.Now, voter vote.NodeID, reason vote.Reason, text string) {
	n.req.Refused(now, voter, reason, text)
	n.settle(now)
}

// Deliver processes a message received over a connection from a peer.
func (n *Node) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	n.deliver(now, conn, from, m)
	n.settle(now)
}

func (n *Node) deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	n.work += heard
	if n.isFixed(conn) {
		if m = n.fromFixedPeer(conn, m); m == nil {
			return
		}
	} else {
		n.receiveEpoch(now, conn, m)
	}
	switch {
	case m.Kind.IsConsensus() || m.Kind == vote.KindRefused && m.Reason == vote.ReasonOldCopy:
		n.receiveConsensus(now, conn, from, m)
	case m.Kind.ToVoter() && n.voter != nil:
		n.route(n.voter.Step(now, conn, from, m, n.spare[:0]))
	case m.Kind.ToVoter():
		n.out = append(n.out, vote.Outbound{Conn: conn, Message: vote.Message{
			Kind: vote.KindRefused, Stream: m.Stream, Reason: vote.ReasonNotVoter,
		}})
	case m.Kind == vote.KindTokenAnswer:
		if n.voter != nil {
			n.route(n.voter.ReceiveTokenAnswer(now, from.Node, m, n.spare[:0]))
		}
	default:
		n.req.Deliver(now, conn, from, m)
		if n.voter != nil && m.Wall != 0 {
			// The requester has the clocks of voters only, from answers that it has accepted.
			n.voter.NoteVoterClocks(n.req.LatestClock())
		}
	}
}

// Tick lets time pass.
func (n *Node) Tick(now vote.Now) {
	n.began = n.Work()
	if n.hasLocal() {
		if n.settle(now); n.hasLocal() {
			return
		}
	}
	if n.voter != nil {
		n.route(n.voter.Tick(now, n.spare[:0]))
		if nonce, ask := n.voter.NextTokenQuery(now); ask {
			n.req.QueryTokens(now, nonce)
		}
	}
	n.req.Tick(now)
	if n.elect != nil {
		n.refreshElect().Tick(now)
	}
	if n.guard != nil {
		n.guard.Tick(now)
	}
	n.settle(now)
}

// Next returns how long from now Tick has something to do; zero or less means now.
func (n *Node) Next(now vote.Now) time.Duration {
	if n.hasLocal() {
		return 0
	}
	d := n.req.Next().Sub(now.Fast)
	if n.voter != nil {
		d = min(d, n.voter.Next().Sub(now.Slow))
	}
	if n.elect != nil {
		d = min(d, n.elect.Next().Sub(now.Slow))
	}
	if n.guard != nil {
		d = min(d, n.guard.Next().Sub(now.Slow))
	}
	return d
}

// Drain appends the messages to send and the events to report, in order, and forgets them. Drain
// may keep an empty list for its memory and return another list instead: messages and events are
// large, and are copied no more often than necessary.
func (n *Node) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	if len(out) == 0 {
		out, n.out = n.out, roomOf(out)
	} else {
		out = append(out, n.out...)
		clear(n.out)
		n.out = n.out[:0]
	}
	if len(ev) == 0 {
		return out, n.req.TakeEvents(roomOf(ev))
	}
	told := n.req.TakeEvents(nil)
	return out, append(ev, told...)
}

// PendingReason returns the reason why a pending request isn't granted.
func (n *Node) PendingReason(now vote.Now, num vote.Number) quorum.Wait {
	return n.req.PendingReason(now, num)
}

// Voters returns every voter as seen from this node, in order of names.
func (n *Node) Voters(now vote.Now) []quorum.VoterState {
	voters := n.req.Voters(now)
	for i := range voters {
		if v := &voters[i]; v.Name == n.self.Node && v.State == quorum.Quiet {
			v.Quiet = max(v.Quiet, n.HeldFor(now))
		}
	}
	return voters
}

// Ready reports whether a majority of the voters answers this node and counts.
func (n *Node) Ready() bool { return n.req.Ready() && !n.inactive() }

// Spare returns how many voters may fail with a majority left; see [quorum.Requester.Spare].
func (n *Node) Spare() int {
	if n.inactive() {
		return 0
	}
	return n.req.Spare()
}

// Quiet returns for how much longer this node's own votes don't count; zero if they count, or if
// the node doesn't vote.
func (n *Node) Quiet() time.Duration {
	if n.voter == nil || n.elect != nil && !n.elect.Votes() {
		return 0
	}
	return n.voter.Quiet()
}

// Alias returns the number under which the voters know a caller's request; see
// [quorum.Requester.Alias].
func (n *Node) Alias(num vote.Number) vote.Number { return n.req.Alias(num) }

// Requester returns the node's requester, for checks and statistics.
func (n *Node) Requester() *quorum.Requester { return n.req }

// Voter returns the node's voter, for checks and statistics; nil on a node that can't be in the
// electorate.
func (n *Node) Voter() *lease.Voter { return n.voter }

// route forwards the messages of the voter. Messages to this node's own requester wait in local.
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

// roomMax is the capacity in messages, some hundred kilobytes, above which a list's memory isn't
// kept. A sync of a million leases is rare, and must not occupy its memory permanently.
const roomMax = 1024

// roomOf returns a list's memory for reuse.
func roomOf[T any](list []T) []T {
	if cap(list) > roomMax {
		return nil
	}
	return list[:0]
}

func (n *Node) post(o *vote.Outbound) {
	switch {
	case o.Conn != vote.LocalConn && !o.Close && n.isFixed(o.Conn) && !n.toFixedPeer(&o.Message):
	case o.Conn != vote.LocalConn:
		n.out = append(n.out, *o)
	case !o.Close: // the link of a node to itself can't be closed
		n.local = append(n.local, o.Message)
	}
}

// settle delivers the messages between this node's requester and voter, until neither sends any
// more, by the path of other nodes' messages; then settle collects the alarms. Each exchange is
// bounded: a message leads to at most one promise, confirmation, inquiry and release of a request.
// If a message leads to thousands, such as a grant on a key with many watches, settle stops when
// the work reaches the budget, and the next call delivers the rest in order, as if the rest were on
// the way to another node.
func (n *Node) settle(now vote.Now) {
	defer func() { n.began = n.Work() }()
	for {
		n.collect()
		n.electorates(now)
		n.obey(now)
		// While two processes have the same name, neither may be sure that it is the voter
		if n.req.NameTaken() && n.voter != nil {
			n.route(n.voter.Withdraw(now, n.spare[:0]))
		}
		if !n.hasLocal() || n.Work()-n.began >= Budget {
			break
		}
		n.deliverLocal(now)
	}
	if n.voter == nil {
		return
	}
	for _, text := range n.voter.Alarms() {
		n.req.Alarm(text)
	}
	if n.guard != nil {
		for _, text := range n.guard.Alarms() {
			n.req.Alarm(text)
		}
		for _, text := range n.guard.Notices() {
			n.req.Notice(text)
		}
	}
	if n.elect != nil {
		for _, text := range n.elect.Alarms() {
			n.req.Alarm(text)
		}
	}
}

// hasLocal reports whether messages between this node's requester and voter are left.
func (n *Node) hasLocal() bool { return n.delivered < len(n.batch) || len(n.local) > 0 }

// deliverLocal delivers the messages sent so far between this node's requester and voter, but no
// message after the work of the call has reached the budget.
func (n *Node) deliverLocal(now vote.Now) {
	if n.delivered == len(n.batch) {
		n.batch, n.local, n.delivered = n.local, n.spareLocal, 0
	}
	for n.delivered < len(n.batch) && n.Work()-n.began < Budget {
		m := &n.batch[n.delivered]
		n.delivered++
		if n.tap != nil && m.Kind.ToVoter() {
			n.tap(vote.LocalConn, m)
		}
		n.deliver(now, vote.LocalConn, n.self, m)
		n.collect()
	}
	if n.delivered == len(n.batch) {
		clear(n.batch)
		n.spareLocal = roomOf(n.batch)
		n.batch, n.delivered = nil, 0
	}
}

// collect forwards the messages of the requester. Events stay with the requester until Drain.
func (n *Node) collect() {
	out := n.req.TakeMessages(n.spareEvents)
	for i := range out {
		n.post(&out[i])
	}
	clear(out)
	n.spareEvents = roomOf(out)
}
