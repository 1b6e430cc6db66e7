package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// state collects a statement; at its end mark it takes effect.
func (v *Voter) state(s *session, m *vote.Message) {
	if !s.stating || s.complete {
		return
	}
	if len(s.stated)+len(m.Entries) > MaxRequests {
		v.closeConn(s.conn)
		v.unlink(s)
		return
	}
	s.stated = append(s.stated, m.Entries...)
	if m.End {
		s.complete = true
		if !s.candidate {
			v.apply(s)
		}
	}
}

// apply makes the voter's record of a session what its statement says, and answers with the votes that stand.
//
// What the statement doesn't list is dropped. A vote that the statement calls yielded is taken back and its request queued
// again: the yield itself was lost in the break. What a holder states and the voter doesn't know is recorded, first in line and
// under the lease's own token; while the voter is quiet it stays at that.
func (v *Voter) apply(s *session) {
	if v.broken {
		return
	}
	v.count.Restated++
	stated := s.stated
	s.stated = nil
	s.deadline = max(s.deadline, v.now.Slow.Add(s.ttl))
	v.moved = true

	listed := make(map[vote.Number]*vote.Entry, len(stated))
	for i := range stated {
		listed[stated[i].Number] = &stated[i]
	}
	for _, e := range s.sorted() {
		if st := listed[e.number]; st == nil || st.Key != e.key.name {
			v.drop(e, true)
		}
	}

	s.stating, s.muted = false, true
	var refused []refusal
	for i := range stated {
		st := &stated[i]
		if listed[st.Number] != st {
			continue // named twice: the last counts
		}
		e := s.entries.m[st.Number]
		if e == nil {
			var why refusal
			if e, why = v.enter(s, st); e == nil {
				refused = append(refused, why)
				continue
			}
		} else {
			v.restate(e, st)
		}
		v.serve(e.key)
	}
	v.unstated(s)
	v.answer(s)
	s.muted = false

	for i := range refused {
		v.turnAway(s, &refused[i])
	}
	for _, e := range s.sorted() {
		v.attend(e.key)
		if e.held && e.serial != 0 {
			v.passOnUrge(e)
		}
		if e.rare().beside != 0 {
			v.settleClash(e.key)
		}
		v.reportWait(e)
	}
}

// restate brings an entry that the voter knows in line with its owner's statement.
func (v *Voter) restate(e *entry, st *vote.Entry) {
	k := e.key
	won := st.Token != 0 && st.Token <= saneToken
	if e.serial != 0 && (e.serial <= st.Yielded || won && st.Slot != 0 && st.Slot != e.slot) {
		v.requeue(e, st.Slot)
	}
	e.inquired, e.wanted, e.urged, e.dormant = false, false, false, false
	if e.extras != nil {
		e.extras.taken = 0
	}
	if e.mode == vote.Exclusive && st.Mode == vote.Shared {
		e.mode = vote.Shared
		k.forgetTaken()
		if e.held {
			v.report(vote.Changed, e)
		}
	}
	if e.serial == 0 {
		k.remove(e)
		defer k.insert(e)
		e.want = useful(st.Slot, e.permits)
	}
	if !won {
		return
	}
	v.raise(k, st.Token)
	e.token, e.has = st.Token, useful(st.Slot, e.permits)
	v.wins(e)
}

// answer lists the votes that stand for the session.
func (v *Voter) answer(s *session) {
	var chunk []vote.Entry
	for _, e := range s.sorted() {
		if e.serial == 0 {
			continue
		}
		if len(chunk) == vote.MaxEntries {
			m := v.say(s.conn, vote.KindAnswer)
			m.Stream, m.Entries = s.stream, chunk
			chunk = nil
		}
		chunk = append(chunk, vote.Entry{Number: e.number, Serial: e.serial, Slot: e.slot, Token: e.token})
	}
	m := v.say(s.conn, vote.KindAnswer)
	m.Stream, m.Entries = s.stream, chunk
	m.End, m.Sent, m.Life, m.Generation = true, s.statedSent, v.cfg.Self.Life, s.gen
	m.Quiet, m.Wall = v.Quiet(), v.now.Wall
	m.Elected, m.Dir = v.elected.Version, v.cfg.Dir
}
