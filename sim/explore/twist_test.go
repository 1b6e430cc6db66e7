package explore

import (
	"github.com/lockmesh/lockmesh/internal/node"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// twister changes messages to and from a node. The functions keep no state.
type twister struct {
	Machine
	in, out func(m *vote.Message)
}

func twists(in, out func(m *vote.Message)) Builder {
	return func(cfg node.Config, now vote.Now) (Machine, error) {
		n, err := node.New(cfg, now)
		return &twister{n, in, out}, err
	}
}

func (w *twister) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if w.in != nil {
		w.in(m)
	}
	w.Machine.Deliver(now, conn, from, m)
}

func (w *twister) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = w.Machine.Drain(out, ev)
	for i := first; i < len(out) && w.out != nil; i++ {
		w.out(&out[i].Message)
	}
	return out, ev
}

// specs applies f to every request spec sent to a voter.
func specs(f func(w *vote.Spec)) func(m *vote.Message) {
	return func(m *vote.Message) {
		switch m.Kind {
		case vote.KindRequest:
			f(&m.Spec)
		case vote.KindSync:
			for i := range m.Entries {
				f(&m.Entries[i].Spec)
			}
		}
	}
}

// modeless is a voter that treats an exclusive request as a shared request.
var modeless = twists(specs(func(w *vote.Spec) {
	if w.Mode == vote.Exclusive {
		w.Mode = vote.Shared
	}
}), nil)

// slotless is a voter that only counts its votes, and names slot 1 in each vote.
var slotless = twists(func(m *vote.Message) {
	if m.Kind.ToVoter() {
		m.Slot = 0
		for i := range m.Entries {
			m.Entries[i].Slot = 0
		}
	}
}, func(m *vote.Message) {
	if m.Kind == vote.KindPromise {
		m.Slot = 1
	}
	for i := range m.Entries {
		if m.Kind == vote.KindAnswer {
			m.Entries[i].Slot = 1
		}
	}
})

// impatient is a voter that treats an upgrade as a shared request: other readers may stay.
var impatient = twists(specs(func(w *vote.Spec) {
	if w.Beside != 0 {
		w.Mode, w.Beside = vote.Shared, 0
	}
}), nil)

// polite is a voter that turns no upgrade away.
var polite = twists(nil, func(m *vote.Message) {
	if m.Kind == vote.KindClash {
		m.Kind, m.Serial = vote.KindInquire, 1<<40 // about a vote that doesn't exist
	}
})

// lumper counts all votes for a request as votes for the slot of the first vote.
type lumper struct {
	Machine
	slots map[vote.Number]vote.Slot
}

func lumps(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &lumper{n, map[vote.Number]vote.Slot{}}, err
}

func (l *lumper) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	lump := func(n vote.Number, s *vote.Slot) {
		if l.slots[n] == 0 {
			l.slots[n] = *s
		}
		*s = l.slots[n]
	}
	switch m.Kind {
	case vote.KindPromise:
		lump(m.Number, &m.Slot)
	case vote.KindAnswer:
		for i := range m.Entries {
			lump(m.Entries[i].Number, &m.Entries[i].Slot)
		}
	}
	l.Machine.Deliver(now, conn, from, m)
}

// deaf takes any confirmation of a voter as a confirmation of the token sent to the voter.
type deaf struct {
	Machine
	asked map[promise]vote.Token
}

func isDeaf(cfg node.Config, now vote.Now) (Machine, error) {
	n, err := node.New(cfg, now)
	return &deaf{n, map[promise]vote.Token{}}, err
}

func (d *deaf) Drain(out []vote.Outbound, ev []quorum.Event) ([]vote.Outbound, []quorum.Event) {
	first := len(out)
	out, ev = d.Machine.Drain(out, ev)
	for _, o := range out[first:] {
		if m := &o.Message; m.Kind == vote.KindConfirm {
			d.asked[promise{o.Conn, m.Stream, m.Number, m.Serial, 0}] = m.Token
		}
	}
	return out, ev
}

func (d *deaf) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	if t := d.asked[promise{conn, m.Stream, m.Number, m.Serial, 0}]; m.Kind == vote.KindConfirmed && t != 0 {
		m.Token = t
	}
	d.Machine.Deliver(now, conn, from, m)
}
