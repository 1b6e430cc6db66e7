package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/internal/discovery"
	"github.com/lockmesh/lockmesh/internal/electorate"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/member"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/transport"
)

// linkHandler passes the reports of the links to the loop. Goroutines of the transport call the
// methods.
type linkHandler struct{ eng *Engine }

var _ transport.Handler = linkHandler{}

// Linked reports a connection that this node dialed; on other connections the peer sends first. The
// report goes through the urgent lane, so no message of the connection overtakes it; and so does
// the report that the peer is a fixed node.
func (h linkHandler) Linked(c vote.Conn, peer vote.SessionID, dialed, fixed bool) {
	loop := h.eng.loop
	if fixed {
		loop.box.post(true, func(vote.Now) { loop.node.FixedPeer(c, peer.Node) })
	}
	if !dialed {
		return
	}
	if !h.eng.finder.LinkUp(c, peer.Node) {
		loop.box.post(true, func(vote.Now) { loop.links.CloseConn(c) })
		return
	}
	loop.box.post(true, func(now vote.Now) { loop.linked(now, c, peer) })
}

func (h linkHandler) Received(c vote.Conn, peer vote.SessionID, b *transport.Batch) {
	h.eng.loop.receive(c, peer, b)
}

// Closed reports the end of a connection. The report goes through the ordered lane, behind all
// messages of the connection. The voter is dialed again only after the node knows of the end.
func (h linkHandler) Closed(c vote.Conn, peer vote.SessionID, _ error) {
	loop := h.eng.loop
	loop.box.post(false, func(now vote.Now) {
		loop.node.Unlink(now, c)
		loop.electorate.dialsStale = true
		h.eng.finder.LinkDown(now, c, peer.Node)
	})
}

// host passes the reports of the finder to the loop.
type host struct{ eng *Engine }

var _ discovery.Host = host{}

func (h host) DialFailed(f discovery.Failure) {
	h.eng.loop.box.post(false, func(now vote.Now) { h.eng.loop.failed(now, &f) })
}

func (h host) SetDuplicateName(text string) {
	h.eng.loop.box.post(false, func(now vote.Now) { h.eng.loop.setDuplicateName(now, text) })
}

func (h host) Accepted() bool {
	loop, accepted := h.eng.loop, make(chan bool, 1)
	loop.box.post(false, func(now vote.Now) {
		accepted <- slices.ContainsFunc(loop.node.Voters(now), func(v quorum.VoterState) bool {
			return v.Name != h.eng.self.Node && (v.State == quorum.Reachable || v.State == quorum.Quiet || v.State == quorum.Silent)
		})
	})
	select {
	case ok := <-accepted:
		return ok
	case <-loop.done:
		return false
	}
}

// Members passes the members known to gossip to the loop; see [discovery.Host].
func (h host) Members(members []member.Member) bool {
	h.eng.saveAddrs(members)
	seen := make([]electorate.Seen, 0, len(members))
	for _, m := range members {
		seen = append(seen, electorate.Seen{Name: m.Name, Dir: m.Dir, State: m.State})
	}
	heard, loop := make(chan struct{}), h.eng.loop
	loop.box.post(false, func(now vote.Now) {
		loop.node.Gossip(now, seen)
		loop.checkElectorate(now)
		close(heard)
	})
	select {
	case <-heard:
		return true
	case <-loop.done:
		return false
	}
}

// linked tells the node of a connection made by a dialer.
func (l *loop) linked(now vote.Now, c vote.Conn, peer vote.SessionID) {
	delete(l.electorate.dialFailures, peer.Node)
	l.node.Link(now, c, peer)
	l.electorate.dialsStale = true
}

// failed tells the node why another node can't be dialed. The reason is remembered for the time
// when that node becomes a voter, since a dialer reports each reason once.
func (l *loop) failed(now vote.Now, failure *discovery.Failure) {
	if !failure.Current() {
		return
	}
	f := dialFailure{failure.Reason, failure.Text}
	if l.electorate.dynamic {
		// a refusal stands until there is another
		if old := l.electorate.dialFailures[failure.Node]; f.reason != vote.ReasonNone || old.reason == vote.ReasonNone {
			l.electorate.dialFailures[failure.Node] = f
		}
	}
	l.reportFailure(now, failure.Node, f)
}

func (l *loop) reportFailure(now vote.Now, name vote.NodeID, f dialFailure) {
	if f.reason == vote.ReasonNone {
		l.node.DialFailed(now, name, f.text)
	} else {
		l.node.Refused(now, name, f.reason, f.text)
	}
}

// refusedByFounders describes the refusals if so many founders refuse this node, which knows no
// electorate yet, that the node can't belong to their mesh; otherwise it returns "".
func (l *loop) refusedByFounders() string {
	if l.engine.IsBornByCount() {
		return "" // there is no list of founders
	}
	var refusing []string
	for _, name := range l.engine.voters() {
		if f := l.electorate.dialFailures[name]; f.reason != vote.ReasonNone {
			refusing = append(refusing, fmt.Sprintf("%s refuses (%s)", name, f.text))
		}
	}
	if n := len(l.engine.cfg.Voters); n-len(refusing) >= majority(n) {
		return ""
	}
	return "no electorate is known, and too many founders refuse this node: " +
		strings.Join(refusing, ", ")
}

// dialFailure is the reason why a node can't be dialed, as its dialer reported last.
type dialFailure struct {
	reason vote.Reason // ReasonNone: the node can't be reached
	text   string
}
