package broken

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Unasked is a restarted voter that asks no other voter for the highest token, and assumes that no
// voter knows a token.
type Unasked struct {
	*node.Node
	now    vote.Now
	voters []vote.NodeID
}

// AsksNoVoter builds an [Unasked].
func AsksNoVoter(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &Unasked{Node: n, now: now, voters: cfg.Voters}, err
}

// Tick keeps the time for answers in the names of other voters.
func (s *Unasked) Tick(now vote.Now) {
	s.now = now
	s.Node.Tick(now)
}

// Deliver drops what other voters answer.
func (s *Unasked) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	s.now = now
	if m.Kind != vote.KindTokenAnswer {
		s.Node.Deliver(now, conn, from, m)
	}
}

// Drain drops the voter's questions, and answers in the name of each voter that no token is known.
func (s *Unasked) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = s.Node.Drain(out, ev)
	asks := func(o vote.Outbound) bool { return o.Message.Kind == vote.KindTokenQuery }
	i := first + slices.IndexFunc(out[first:], asks)
	if i < first {
		return out, ev
	}
	for _, v := range s.voters {
		s.Node.Deliver(s.now, 0, vote.SessionID{Node: v}, &vote.Message{Kind: vote.KindTokenAnswer, Nonce: out[i].Message.Nonce, Counting: true})
	}
	kept := slices.DeleteFunc(slices.Clone(out[first:]), asks)
	return s.Node.Drain(append(out[:first], kept...), ev)
}
