package explore

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// glib sends a yield, and stops counting the vote only when time passes.
type glib struct {
	Machine
	won   map[vote.Number]bool
	later []inquiry
	owed  map[promise]bool // yields sent early
	out   []vote.Outbound
}

type inquiry struct {
	conn vote.Conn
	from vote.SessionID
	m    vote.Message
}

func yieldsFirst(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &glib{Machine: n, won: map[vote.Number]bool{}, owed: map[promise]bool{}}, err
}

func (g *glib) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind != vote.KindInquire || g.won[m.Number] {
		g.Machine.Deliver(now, conn, from, m)
		return
	}
	g.later = append(g.later, inquiry{conn, from, *m})
	g.owed[promise{conn, m.Stream, m.Number, m.Serial, 0}] = true
	g.out = append(g.out, vote.Outbound{Conn: conn, Message: vote.Message{
		Kind: vote.KindYield, Stream: m.Stream, Number: m.Number, Serial: m.Serial,
	}})
}

func (g *glib) Tick(now vote.Now) {
	for i := range g.later {
		l := &g.later[i]
		g.Machine.Deliver(now, l.conn, l.from, &l.m)
	}
	g.later = nil
	g.Machine.Tick(now)
}

func (g *glib) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	out = append(out, g.out...)
	g.out = nil
	first, told := len(out), len(ev)
	out, ev = g.Machine.Drain(out, ev)
	for _, e := range ev[told:] {
		if e.Kind == quorum.EventGranted {
			g.won[e.Number] = true
		}
	}
	kept := slices.DeleteFunc(slices.Clone(out[first:]), func(o vote.Outbound) bool {
		return o.Message.Kind == vote.KindYield && g.owed[promise{o.Conn, o.Message.Stream, o.Message.Number, o.Message.Serial, 0}]
	})
	return append(out[:first], kept...), ev
}
