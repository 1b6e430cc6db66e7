package explore

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// anyone extends its leases by the acknowledgements of any majority, even of voters without a vote
// for the lease.
type anyone struct {
	Machine
	quorum int
	acked  map[vote.NodeID]vote.Instant
	groups map[quorum.GroupID]vote.Instant // as last reported
	order  []quorum.GroupID
	stale  []vote.Number // lost by the rules
	now    vote.Now
}

func anyMajority(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &anyone{
		Machine: n, quorum: len(cfg.Voters)/2 + 1, acked: map[vote.NodeID]vote.Instant{}, groups: map[quorum.GroupID]vote.Instant{}, now: now,
	}, err
}

func (a *anyone) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind == vote.KindAck {
		a.acked[from.Node] = max(a.acked[from.Node], m.Sent.Add(vote.Validity(ttl)))
	}
	a.now = now
	a.Machine.Deliver(now, conn, from, m)
}

func (a *anyone) Tick(now vote.Now) {
	a.now = now
	a.Machine.Tick(now)
}

// until returns the q-th largest validity.
func (a *anyone) until() vote.Instant {
	all := make([]vote.Instant, 0, len(a.acked))
	for _, i := range a.acked {
		all = append(all, i)
	}
	if len(all) < a.quorum {
		return 0
	}
	slices.Sort(all)
	return all[len(all)-a.quorum].Add(-vote.Margin(ttl))
}

func (a *anyone) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(ev)
	out, ev = a.Machine.Drain(out, ev)
	inner := slices.Clone(ev[first:])
	ev = ev[:first]
	until := a.until()
	for _, g := range a.order {
		if until > a.groups[g] {
			a.groups[g] = until
			ev = append(ev, quorum.Event{Kind: quorum.EventValidity, Group: g, Until: until})
		}
	}
	for _, e := range inner {
		switch e.Kind {
		case quorum.EventValidity:
			if _, ok := a.groups[e.Group]; !ok {
				a.order = append(a.order, e.Group)
			}
			e.Until = max(e.Until, until)
			a.groups[e.Group] = e.Until
		case quorum.EventLost:
			if until > a.now.Fast {
				a.stale = append(a.stale, e.Number)
				continue
			}
		}
		ev = append(ev, e)
	}
	if until <= a.now.Fast {
		for _, n := range a.stale {
			ev = append(ev, quorum.Event{Kind: quorum.EventLost, Number: n})
		}
		a.stale = nil
	}
	return out, ev
}

// late counts a vote again after giving the vote back, if another message with the vote's serial
// arrives.
type late struct {
	Machine
	yielded map[promise]bool
}

func honoursLate(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &late{Machine: n, yielded: map[promise]bool{}}, err
}

func (l *late) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = l.Machine.Drain(out, ev)
	for _, o := range out[first:] {
		if m := &o.Message; m.Kind == vote.KindYield {
			l.yielded[promise{o.Conn, m.Stream, m.Number, m.Serial, 0}] = true
		}
	}
	return out, ev
}

func (l *late) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind == vote.KindConfirmed && l.yielded[promise{conn, m.Stream, m.Number, m.Serial, 0}] {
		m.Kind = vote.KindPromise
		m.Serial += 1 << 40 // a serial that is new to the genuine node
	}
	l.Machine.Deliver(now, conn, from, m)
}

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

// revenant believes in a lost lease again when a voter acknowledges a refresh.
type revenant struct {
	Machine
	groups map[vote.Number]quorum.GroupID
	lost   []vote.Number
	until  vote.Instant
}

func resurrects(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &revenant{Machine: n, groups: map[vote.Number]quorum.GroupID{}}, err
}

func (r *revenant) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind == vote.KindAck && len(r.lost) > 0 {
		r.until = now.Fast.Add(vote.Validity(ttl) / 2)
	}
	r.Machine.Deliver(now, conn, from, m)
}

func (r *revenant) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(ev)
	out, ev = r.Machine.Drain(out, ev)
	for _, e := range ev[first:] {
		switch e.Kind {
		case quorum.EventGranted, quorum.EventMoved:
			r.groups[e.Number] = e.Group
		case quorum.EventLost:
			r.lost = append(r.lost, e.Number)
		}
	}
	told := slices.DeleteFunc(slices.Clone(ev[first:]), func(e quorum.Event) bool { return e.Kind == quorum.EventLost })
	ev = append(ev[:first], told...)
	if r.until != 0 {
		for _, n := range r.lost {
			ev = append(ev, quorum.Event{Kind: quorum.EventValidity, Group: r.groups[n], Until: r.until})
		}
		r.until = 0
	}
	return out, ev
}
