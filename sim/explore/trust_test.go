package explore

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// early asks for the highest token at the start of its quiet time, and uses these answers at the
// end.
type early struct {
	Machine
	life  vote.Incarnation
	asked map[vote.Conn]bool
	told  []told
	out   []vote.Outbound
	ev    []quorum.Event
}

type told struct {
	conn vote.Conn
	from vote.SessionID
	m    vote.Message
}

func newEarly(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &early{Machine: n, life: cfg.Incarnation, asked: map[vote.Conn]bool{}}, err
}

func (e *early) Link(now vote.Now, conn vote.Conn, voter vote.SessionID) {
	if e.Voter() != nil && !e.asked[conn] {
		e.asked[conn] = true
		e.out = append(e.out, vote.Outbound{Conn: conn, Message: vote.Message{Kind: vote.KindTokenQuery, Nonce: uint64(e.life)}})
	}
	e.Machine.Link(now, conn, voter)
}

func (e *early) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind == vote.KindTokenAnswer && m.Counting && !slices.ContainsFunc(e.told, func(t told) bool { return t.from.Node == from.Node }) {
		e.told = append(e.told, told{conn, from, *m})
	}
	e.Machine.Deliver(now, conn, from, m) // not asking yet, or answered already
}

func (e *early) Tick(now vote.Now) {
	e.Machine.Tick(now)
	out, ev := e.Machine.Drain(nil, nil)
	e.ev = append(e.ev, ev...)
	for _, o := range out {
		if o.Message.Kind == vote.KindTokenQuery && len(e.told) >= 2 {
			continue
		}
		e.out = append(e.out, o)
	}
	if e.Voter() == nil {
		return
	}
	if _, asking := e.Voter().NextTokenQuery(now); len(e.told) >= 2 && (asking || len(out) > 0) {
		for i := range e.told {
			m := e.told[i].m
			e.Machine.Deliver(now, e.told[i].conn, e.told[i].from, &m)
		}
	}
}

func (e *early) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	out, ev = append(out, e.out...), append(ev, e.ev...)
	e.out, e.ev = nil, nil
	return e.Machine.Drain(out, ev)
}
