package broken

import (
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// twister changes messages to and from a node.
type twister struct {
	*node.Node
	in, out func(m *vote.Message)
}

// Twists returns a builder of nodes whose messages are changed: in changes messages to the node,
// and out messages from the node. Either may be nil, and neither may keep state.
func Twists(in, out func(m *vote.Message)) Builder {
	return func(cfg node.Config, now vote.Now) (Machine, error) {
		n, err := node.New(cfg, now)
		return &twister{n, in, out}, err
	}
}

func (w *twister) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if w.in != nil {
		w.in(m)
	}
	w.Node.Deliver(now, conn, from, m)
}

func (w *twister) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = w.Node.Drain(out, ev)
	for i := first; i < len(out) && w.out != nil; i++ {
		w.out(&out[i].Message)
	}
	return out, ev
}
