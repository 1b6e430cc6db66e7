package engine

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/discovery"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
	"github.com/lockmesh/lockmesh/transport"
)

// linkHandler passes the reports of the links to the loop. Goroutines of the transport call the
// methods.
type linkHandler struct{ eng *Engine }

var _ transport.Handler = linkHandler{}

// Linked reports a connection that this node dialed; on other connections the peer sends first. The
// report goes through the urgent lane, so no message of the connection overtakes it.
func (h linkHandler) Linked(c vote.Conn, peer vote.SessionID, dialed bool) {
	if !dialed {
		return
	}
	loop := h.eng.loop
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
