package broken

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Anyone extends its leases by the acknowledgements of any majority, even of voters without a vote
// for the lease.
type Anyone struct {
	*node.Node
	Now    vote.Now // of the last call
	ttl    time.Duration
	quorum int
	acked  map[vote.NodeID]vote.Instant
	groups map[quorum.GroupID]vote.Instant // as last reported
	order  []quorum.GroupID
	stale  []vote.Number // lost by the rules
}

// AnyMajority builds an [Anyone].
func AnyMajority(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &Anyone{
		Node: n, Now: now, ttl: cfg.TTL, quorum: len(cfg.Voters)/2 + 1, acked: map[vote.NodeID]vote.Instant{},
		groups: map[quorum.GroupID]vote.Instant{},
	}, err
}

// Deliver takes a voter's acknowledgement for an extension of all leases.
func (a *Anyone) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind == vote.KindAck {
		a.acked[from.Node] = max(a.acked[from.Node], m.Sent.Add(vote.Validity(a.ttl)))
	}
	a.Now = now
	a.Node.Deliver(now, conn, from, m)
}

// Tick notes the time.
func (a *Anyone) Tick(now vote.Now) {
	a.Now = now
	a.Node.Tick(now)
}

// Release notes the time.
func (a *Anyone) Release(now vote.Now, n vote.Number) {
	a.Now = now
	a.Node.Release(now, n)
}

// Until returns the q-th largest validity of all, less the margin.
func (a *Anyone) Until() vote.Instant {
	all := make([]vote.Instant, 0, len(a.acked))
	for _, i := range a.acked {
		all = append(all, i)
	}
	if len(all) < a.quorum {
		return 0
	}
	slices.Sort(all)
	return all[len(all)-a.quorum].Add(-vote.Margin(a.ttl))
}

// Drain reports leases as valid for as long as the node believes in the leases.
func (a *Anyone) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(ev)
	out, ev = a.Node.Drain(out, ev)
	inner := slices.Clone(ev[first:])
	ev = ev[:first]
	until := a.Until()
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
			if until > a.Now.Fast {
				a.stale = append(a.stale, e.Number)
				continue
			}
		}
		ev = append(ev, e)
	}
	if until <= a.Now.Fast {
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
	*node.Node
	yielded map[yield]bool
}

// yield names what a yield gives back.
type yield struct {
	conn   vote.Conn
	stream vote.Stream
	number vote.Number
	serial vote.Serial
}

func yieldOf(conn vote.Conn, m *vote.Message) yield {
	return yield{conn, m.Stream, m.Number, m.Serial}
}

// HonoursLate counts a vote again after giving the vote back, if the voter confirms the vote late.
func HonoursLate(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &late{n, map[yield]bool{}}, err
}

func (l *late) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = l.Node.Drain(out, ev)
	for _, o := range out[first:] {
		if m := &o.Message; m.Kind == vote.KindYield {
			l.yielded[yieldOf(o.Conn, m)] = true
		}
	}
	return out, ev
}

func (l *late) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind == vote.KindConfirmed && l.yielded[yieldOf(conn, m)] {
		m.Kind = vote.KindPromise
		m.Serial += 1 << 40 // the genuine node takes the message for a new vote
	}
	l.Node.Deliver(now, conn, from, m)
}

// revenant believes in a lost lease again when a voter acknowledges a refresh.
type revenant struct {
	*node.Node
	ttl    time.Duration
	groups map[vote.Number]quorum.GroupID
	lost   []vote.Number
	gone   []vote.Number // released by users unaware of the loss
	until  vote.Instant
}

// Resurrects believes in a lost lease again when a voter acknowledges a refresh.
func Resurrects(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &revenant{Node: n, ttl: cfg.TTL, groups: map[vote.Number]quorum.GroupID{}}, err
}

func (r *revenant) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if m.Kind == vote.KindAck && len(r.lost) > 0 {
		r.until = now.Fast.Add(vote.Validity(r.ttl) / 2)
	}
	r.Node.Deliver(now, conn, from, m)
}

func (r *revenant) Release(now vote.Now, n vote.Number) {
	if slices.Contains(r.lost, n) {
		r.gone = append(r.gone, n)
	}
	r.Node.Release(now, n)
}

func (r *revenant) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(ev)
	out, ev = r.Node.Drain(out, ev)
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
	for _, n := range r.gone {
		ev = append(ev, quorum.Event{Kind: quorum.EventReleased, Number: n})
		r.lost = slices.DeleteFunc(r.lost, func(l vote.Number) bool { return l == n })
	}
	r.gone = nil
	if r.until != 0 {
		for _, n := range r.lost {
			ev = append(ev, quorum.Event{Kind: quorum.EventValidity, Group: r.groups[n], Until: r.until})
		}
		r.until = 0
	}
	return out, ev
}
