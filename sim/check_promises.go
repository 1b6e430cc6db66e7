package sim

import (
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/sim/check"
)

// promiseCheck feeds [check.Promises] with the messages that voters send and receive, and demands
// that during its startup quarantine a voter sends nothing that counts.
type promiseCheck struct{ w *World }

// tapped observes all messages from a node's voter, and those from the node's own requester to the
// voter.
func (pc *promiseCheck) tapped(p *process, conn vote.Conn, m *vote.Message) {
	to := p.id
	if conn == vote.LocalConn {
		pc.w.fig.Local++
		if pc.w.trace != nil {
			pc.w.trace.message(pc.w.now, p.host, p.host, m)
		}
		if m.Kind.ToVoter() {
			pc.deliveredTo(p, p.id, m)
			return
		}
	} else if int(conn) >= len(p.conns) || p.conns[conn].l == nil {
		return
	} else {
		c := p.conns[conn]
		to = c.l.ends[1-c.side].p.id
	}
	pc.sentBy(p, to, m)
}

// sent checks outgoing messages: during the startup quarantine a node sends nothing that counts.
func (pc *promiseCheck) sent(p *process, m *vote.Message) {
	counts := false
	switch m.Kind {
	case vote.KindPromise:
		counts = true
	case vote.KindAck, vote.KindAnswer:
		counts = m.Quiet <= 0 && (m.End || m.Kind == vote.KindAck)
	case vote.KindTokenAnswer:
		counts = m.Counting
	}
	if counts && pc.w.validity.isQuiet(p) {
		pc.w.judge.violate(checkQuiet, "%s says %q as if it counted, %v after its start", p.host.alias, appendMessage(nil, m),
			p.clock.slowAt(pc.w.now).Sub(p.started))
	}
}

// sentBy records a message from a voter to a session.
func (pc *promiseCheck) sentBy(p *process, to vote.SessionID, m *vote.Message) {
	pc.sent(p, m)
	pc.w.marks.marksOfMessage(to, m)
	switch m.Kind {
	case vote.KindPromise:
		pc.w.fig.Promises++
		pc.promised(p, to, m.Number, m.Serial, m.Slot, true)
	case vote.KindAck, vote.KindAnswer:
		// The session comes first: the votes listed by an answer stand as long as the session.
		if owner := pc.w.judge.bySession[to]; owner != nil {
			if !m.Void && (m.End || m.Kind == vote.KindAck) {
				p.promises.Extended(to, m.Sent, p.clock.slowAt(pc.w.now).Add(pc.w.maxTTLs.grants(m.Epoch, owner.ttl)))
			}
		}
		if m.Kind == vote.KindAnswer {
			for i := range m.Entries {
				pc.promised(p, to, m.Entries[i].Number, m.Entries[i].Serial, m.Entries[i].Slot, false)
			}
			if !m.End {
				return
			}
			p.promises.Answered(to)
		}
	case vote.KindExtended:
		p.promises.Lasts(to, m.Number, m.Serial, func(r *check.Lease) vote.Instant {
			return p.clock.slowAt(pc.w.now).Add(pc.w.maxTTLs.grants(m.Epoch, r.Length))
		})
	case vote.KindLapsed:
		p.promises.Lapsed(p.clock.slowAt(pc.w.now), to, m.Number, m.Serial)
	case vote.KindInquire:
		pc.w.fig.Inquiries++
	case vote.KindConfirmed:
		pc.w.fig.Confirmed++
	}
}

// promised records that a voter has given a vote, or still keeps a vote.
func (pc *promiseCheck) promised(p *process, to vote.SessionID, n vote.Number, s vote.Serial, slot vote.Slot, isNew bool) {
	owner := pc.w.judge.bySession[to]
	if owner == nil || n == 0 || int(n) >= len(owner.asked) {
		pc.w.judge.violate(checkEvents, "%s promises something to request %d of %v, which is unknown", p.host.alias, n, to)
		return
	}
	p.promises.Promised(pc.w.now, p.clock.slowAt(pc.w.now), to, &owner.asked[n].Lease, s, slot, isNew)
}

// deliveredTo records a message from a requester as it reaches a process.
func (pc *promiseCheck) deliveredTo(p *process, from vote.SessionID, m *vote.Message) {
	pc.w.marks.marksOfReply(p, from, m)
	p.receivesForgotten(pc.w.now, m)
	switch m.Kind {
	case vote.KindYield:
		pc.w.fig.Yields++
		p.promises.Yielded(from, m.Number, m.Serial)
	case vote.KindRelease:
		p.promises.Released(pc.w.now, from, m.Number)
	case vote.KindRefresh, vote.KindOpen:
		if m.Void || m.Kind == vote.KindOpen && m.Heard != 0 {
			p.promises.Void(from, m.Heard)
		}
	case vote.KindSync:
		if m.End {
			pc.w.fig.Syncs++
			p.promises.Synced(from)
		}
	case vote.KindConfirm:
		if !m.Won {
			pc.w.fig.Confirmations++
		}
	}
}
