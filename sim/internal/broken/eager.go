package broken

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Eager sends a yield at once, and stops counting the vote only at its next tick.
type Eager struct {
	*node.Node
	won   map[vote.Number]bool
	later []inquiry
	owed  map[yield]bool // the yields sent at once
	out   []vote.Outbound
}

type inquiry struct {
	conn vote.Conn
	from vote.SessionID
	m    vote.Message
}

// YieldsFirst builds an [Eager].
func YieldsFirst(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &Eager{Node: n, won: make(map[vote.Number]bool), owed: make(map[yield]bool)}, err
}

// Deliver answers an inquiry about a request that hasn't won with a yield, and keeps the inquiry.
func (g *Eager) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind != vote.KindInquire || g.won[m.Number] {
		g.Node.Deliver(now, conn, from, m)
		return
	}
	g.later = append(g.later, inquiry{conn, from, *m})
	g.owed[yieldOf(conn, m)] = true
	g.out = append(g.out, vote.Outbound{Conn: conn, Message: vote.Message{
		Kind: vote.KindYield, Stream: m.Stream, Number: m.Number, Serial: m.Serial,
	}})
}

// Tick delivers the inquiries that were kept.
func (g *Eager) Tick(now vote.Now) {
	for i := range g.later {
		l := &g.later[i]
		g.Node.Deliver(now, l.conn, l.from, &l.m)
	}
	g.later = nil
	g.Node.Tick(now)
}

// Drain leaves out the yields that were sent at once.
func (g *Eager) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	out = append(out, g.out...)
	g.out = nil
	first, told := len(out), len(ev)
	out, ev = g.Node.Drain(out, ev)
	for _, e := range ev[told:] {
		if e.Kind == quorum.EventGranted {
			g.won[e.Number] = true
		}
	}
	kept := slices.DeleteFunc(slices.Clone(out[first:]), func(o vote.Outbound) bool {
		return o.Message.Kind == vote.KindYield && g.owed[yieldOf(o.Conn, &o.Message)]
	})
	return append(out[:first], kept...), ev
}
