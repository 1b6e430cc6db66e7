package broken

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// confirmation identifies a confirmation that a requester has asked a voter for.
type confirmation struct {
	conn   vote.Conn
	stream vote.Stream
	number vote.Number
	serial vote.Serial
	token  vote.Token // zero where any token counts
}

// trusting takes the largest proposed token without waiting for the other voters to confirm the
// token.
type trusting struct {
	*node.Node
	now   vote.Now
	peers map[vote.Conn]vote.SessionID
	owed  map[confirmation]bool // confirmations yet to come, and already counted
}

// ConfirmsNothing builds a requester that takes a token for confirmed as soon as the confirmation
// is requested.
func ConfirmsNothing(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &trusting{n, now, map[vote.Conn]vote.SessionID{}, map[confirmation]bool{}}, err
}

func (c *trusting) Link(now vote.Now, conn vote.Conn, voter vote.SessionID) {
	c.now, c.peers[conn] = now, voter
	c.Node.Link(now, conn, voter)
}

func (c *trusting) Tick(now vote.Now) {
	c.now = now
	c.Node.Tick(now)
}

func (c *trusting) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	for {
		first := len(out)
		out, ev = c.Node.Drain(out, ev)
		if len(out) == first {
			return out, ev
		}
		for _, o := range slices.Clone(out[first:]) {
			if m := o.Message; m.Kind == vote.KindConfirm && !m.Won {
				c.owed[confirmation{o.Conn, m.Stream, m.Number, m.Serial, m.Token}] = true
				m.Kind = vote.KindConfirmed
				c.Node.Deliver(c.now, o.Conn, c.peers[o.Conn], &m)
			}
		}
	}
}

func (c *trusting) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	c.now = now
	if p := (confirmation{conn, m.Stream, m.Number, m.Serial, m.Token}); m.Kind == vote.KindConfirmed && c.owed[p] {
		delete(c.owed, p)
		return
	}
	c.Node.Deliver(now, conn, from, m)
}

// anyToken is a requester that takes every confirmation for one of the requested token.
type anyToken struct {
	*node.Node
	asked map[confirmation]vote.Token
}

// TakesAnyToken builds a requester that takes any confirmation of a voter as a confirmation of the
// token sent to the voter.
func TakesAnyToken(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &anyToken{n, map[confirmation]vote.Token{}}, err
}

func (a *anyToken) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = a.Node.Drain(out, ev)
	for _, o := range out[first:] {
		if m := &o.Message; m.Kind == vote.KindConfirm {
			a.asked[confirmation{o.Conn, m.Stream, m.Number, m.Serial, 0}] = m.Token
		}
	}
	return out, ev
}

func (a *anyToken) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if t := a.asked[confirmation{conn, m.Stream, m.Number, m.Serial, 0}]; m.Kind == vote.KindConfirmed && t != 0 {
		m.Token = t
	}
	a.Node.Deliver(now, conn, from, m)
}

// slotless is a requester that counts votes for different slots together.
type slotless struct {
	*node.Node
	slots map[vote.Number]vote.Slot
}

// CountsAnySlot builds a requester that counts all votes for a request as votes for the slot of the
// first vote.
func CountsAnySlot(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &slotless{n, map[vote.Number]vote.Slot{}}, err
}

func (s *slotless) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	same := func(n vote.Number, slot *vote.Slot) {
		if s.slots[n] == 0 {
			s.slots[n] = *slot
		}
		*slot = s.slots[n]
	}
	switch m.Kind {
	case vote.KindPromise:
		same(m.Number, &m.Slot)
	case vote.KindAnswer:
		for i := range m.Entries {
			same(m.Entries[i].Number, &m.Entries[i].Slot)
		}
	}
	s.Node.Deliver(now, conn, from, m)
}
