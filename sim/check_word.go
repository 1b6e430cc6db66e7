package sim

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// wordCheck demands that voters keep their promises: it knows only the messages that voters sent.
type wordCheck struct{ w *World }

// said records the messages sent by one incarnation of a voter, without any knowledge of the voting
// algorithm.
type said struct {
	votes map[vote.Key][]*spoken
	// until is the deadline, by the voter's slow clock, to which the voter acknowledged to keep a
	// session.
	until map[vote.SessionID]vote.Instant
	// heard lists the answers that extended a session, unless the session's owner declared them
	// void.
	heard  map[vote.SessionID][]extended
	newest vote.Serial          // the newest serial promised
	unsaid map[vote.Serial]bool // older serials not seen yet
	gone   gone
}

// gone is the request of the last release received. A voter runs its timers before it handles a
// message, so at this very moment the voter may still promise a vote to the released request.
type gone struct {
	at     Moment
	owner  vote.SessionID
	number vote.Number
}

// extended is an answer that extends a session and may still reach the session's owner.
type extended struct {
	sent  vote.Instant // the owner's clock at the request
	until vote.Instant // the voter's slow clock
}

// heardMax is how many answers are kept for a session: more than are sent in a TTL, apart from
// refreshes out of turn.
const heardMax = 64

// extends records an answer that extends a session until the given instant.
func (s *said) extends(owner vote.SessionID, sent, until vote.Instant) {
	s.until[owner] = max(s.until[owner], until)
	all := append(s.heard[owner], extended{sent, until})
	if len(all) > heardMax {
		all = slices.Delete(all, 0, len(all)-heardMax)
	}
	s.heard[owner] = all
}

// voids drops the answers to messages sent after newest, since the owner has declared them void.
func (s *said) voids(owner vote.SessionID, newest vote.Instant) {
	s.heard[owner] = slices.DeleteFunc(s.heard[owner], func(h extended) bool { return h.sent > newest })
	s.until[owner] = 0
	for _, h := range s.heard[owner] {
		s.until[owner] = max(s.until[owner], h.until)
	}
}

// says records a serial and reports whether the serial is new.
func (s *said) says(n vote.Serial) bool {
	if n <= s.newest {
		isNew := s.unsaid[n]
		delete(s.unsaid, n)
		return isNew
	}
	for s.newest++; s.newest < n; s.newest++ {
		s.unsaid[s.newest] = true
	}
	return true
}

// stands returns until when, by the voter's slow clock, a vote binds the voter if its owner doesn't
// give the vote back.
func (s *said) stands(v *spoken) vote.Instant {
	until := v.until
	if until == 0 {
		until = s.until[v.owner]
	}
	return until.Add(v.r.Ask.Delay)
}

// spoken is a vote as observed by the world.
type spoken struct {
	owner  vote.SessionID
	number vote.Number
	serial vote.Serial
	slot   vote.Slot
	r      *Request
	ended  bool // the owner has given back the vote
	// unsure marks a vote that a sync may have given back, unless the answer lists the vote.
	unsure bool
	// until is the end of the vote if its lease has a length of its own; zero until the voter has
	// sent the end.
	until vote.Instant
}

// tapped observes all messages from a node's voter, and those from the node's own requester to the
// voter.
func (wc *wordCheck) tapped(p *process, conn vote.Conn, m *vote.Message) {
	to := p.id
	if conn == vote.LocalConn {
		wc.w.fig.Local++
		if wc.w.trace != nil {
			wc.w.trace.message(wc.w.now, p.host, p.host, m)
		}
		if m.Kind.ToVoter() {
			wc.deliveredTo(p, p.id, m)
			return
		}
	} else if int(conn) >= len(p.conns) || p.conns[conn].l == nil {
		return
	} else {
		c := p.conns[conn]
		to = c.l.ends[1-c.side].p.id
	}
	wc.saidBy(p, to, m)
}

// sent checks outgoing messages: during the startup quarantine a node sends nothing that counts.
func (wc *wordCheck) sent(p *process, m *vote.Message) {
	counts := false
	switch m.Kind {
	case vote.KindPromise:
		counts = true
	case vote.KindAck, vote.KindAnswer:
		counts = m.Quiet <= 0 && (m.End || m.Kind == vote.KindAck)
	case vote.KindTell:
		counts = m.Counting
	}
	if counts && wc.w.cover.isQuiet(p) {
		wc.w.judge.violate(checkQuiet, "%s says %q as if it counted, %v after its start", p.host.alias, appendMessage(nil, m),
			p.clock.slowAt(wc.w.now).Sub(p.started))
	}
}

// saidBy records a message from a voter to a session.
func (wc *wordCheck) saidBy(p *process, to vote.SessionID, m *vote.Message) {
	wc.sent(p, m)
	wc.w.marks.marksOfWord(to, m)
	switch m.Kind {
	case vote.KindPromise:
		wc.w.fig.Promises++
		wc.promised(p, to, m.Number, m.Serial, m.Slot, true)
	case vote.KindAck, vote.KindAnswer:
		// The session comes first: the votes listed by an answer stand as long as the session.
		if owner := wc.w.judge.bySession[to]; owner != nil {
			if !m.Void && (m.End || m.Kind == vote.KindAck) {
				p.said.extends(to, m.Sent, p.clock.slowAt(wc.w.now).Add(wc.w.maxTTLs.grants(m.Epoch, owner.ttl)))
			}
		}
		if m.Kind == vote.KindAnswer {
			for i := range m.Entries {
				wc.promised(p, to, m.Entries[i].Number, m.Entries[i].Serial, m.Entries[i].Slot, false)
			}
			if !m.End {
				return
			}
			wc.each(p, to, func(s *spoken) { s.ended = s.ended || s.unsure })
		}
	case vote.KindExtended, vote.KindLapsed:
		wc.lasts(p, to, m)
	case vote.KindInquire:
		wc.w.fig.Inquiries++
	case vote.KindConfirmed:
		wc.w.fig.Confirmed++
	}
}

// promised records that a voter has given a vote, or still keeps a vote.
func (wc *wordCheck) promised(p *process, to vote.SessionID, n vote.Number, s vote.Serial, slot vote.Slot, fresh bool) {
	owner := wc.w.judge.bySession[to]
	if owner == nil || int(n) >= len(owner.asked) {
		wc.w.judge.violate(checkEvents, "%s promises something to request %d of %v, which is unknown", p.host.alias, n, to)
		return
	}
	slow := p.clock.slowAt(wc.w.now)
	if !p.said.says(s) && fresh {
		wc.w.judge.violate(checkSerial, "%s promises serial %d again", p.host.alias, s)
	}
	r := owner.asked[n]
	k := r.key.name
	fits := &spoken{owner: to, number: n, serial: s, slot: slot, r: r, ended: p.said.gone == gone{wc.w.now, to, n}}
	kept := p.said.votes[k][:0]
	for _, old := range p.said.votes[k] {
		switch until := p.said.stands(old); {
		case old.owner == to && old.number == n:
			// Earlier messages about this vote still apply, even if the voter was to forget the
			// vote meanwhile.
			if old.serial == s {
				fits.until = old.until
			}
			continue
		case old.ended, slow >= until:
			continue
		case old.unsure:
		case r.barsIn(slot, old.r, old.slot):
			wc.w.judge.violate(checkWord, "%s promises %q to request %d of %v, while request %d of %v has it for %v more", p.host.alias, k, n, to,
				old.number, old.owner, until.Sub(slow))
		}
		kept = append(kept, old)
	}
	clear(p.said.votes[k][len(kept):])
	p.said.votes[k] = append(kept, fits)
}

// lasts observes a voter's message about a vote: the vote lasts for its lease's length from now on,
// or has outlasted this length.
func (wc *wordCheck) lasts(p *process, to vote.SessionID, m *vote.Message) {
	for _, k := range wc.w.judge.lockKeys {
		for _, s := range p.said.votes[k.name] {
			if s.owner != to || s.number != m.Number || s.serial != m.Serial {
				continue
			}
			if m.Kind == vote.KindExtended {
				s.until = max(s.until, p.clock.slowAt(wc.w.now).Add(wc.w.maxTTLs.grants(m.Epoch, s.r.Ask.Length)))
			} else if slow := p.clock.slowAt(wc.w.now); slow < s.until {
				wc.w.judge.violate(checkWord, "%s says %v too early that request %d of %v has outlasted its length", p.host.alias, s.until.Sub(slow), m.Number, to)
			}
		}
	}
}

// deliveredTo records a message from a requester as it reaches a process.
func (wc *wordCheck) deliveredTo(p *process, from vote.SessionID, m *vote.Message) {
	wc.w.marks.marksOfReply(p, from, m)
	p.hearsOfTheForgotten(wc.w.now, m)
	switch m.Kind {
	case vote.KindYield:
		wc.w.fig.Yields++
		wc.each(p, from, func(s *spoken) { s.ended = s.ended || s.number == m.Number && s.serial == m.Serial })
	case vote.KindRelease:
		p.said.gone = gone{wc.w.now, from, m.Number}
		wc.each(p, from, func(s *spoken) { s.ended = s.ended || s.number == m.Number })
	case vote.KindRefresh, vote.KindOpen:
		if m.Void || m.Kind == vote.KindOpen && m.Heard != 0 {
			p.said.voids(from, m.Heard)
		}
	case vote.KindSync:
		if m.End {
			wc.w.fig.Statements++
			wc.each(p, from, func(s *spoken) { s.unsure = true })
		}
	case vote.KindConfirm:
		if !m.Won {
			wc.w.fig.Confirmations++
		}
	}
}

// each calls f for every vote that a voter has given to a session.
func (wc *wordCheck) each(p *process, owner vote.SessionID, f func(*spoken)) {
	for _, k := range wc.w.judge.lockKeys {
		for _, s := range p.said.votes[k.name] {
			if s.owner == owner {
				f(s)
			}
		}
	}
}
