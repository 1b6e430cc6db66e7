package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// set gives a request a value for other nodes to see. Newer versions replace older versions, so a
// repeated message does no harm.
func (v *Voter) set(s *session, m *vote.Message) {
	e := s.entries.m[m.Number]
	if e == nil || len(m.Value) > vote.MaxValueLen {
		return
	}
	if x := v.spares.coldFor(e); m.Version > x.version {
		was, _ := vote.ReadVersion(x.version)
		is, _ := vote.ReadVersion(m.Version)
		x.version, x.value = m.Version, m.Value
		if e.held && is != was {
			v.report(vote.Changed, e)
		}
	}
	v.push(s, vote.KindValueStored, m.Number).Version = m.Version
}

// revokeForRequest asks the present and later holders of the key to give it back, as long as the
// request waits.
func (v *Voter) revokeForRequest(s *session, m *vote.Message) {
	e := s.entries.m[m.Number]
	if e == nil {
		return
	}
	x := v.spares.coldFor(e)
	if !x.revokes {
		e.key.revoking++
	}
	x.revokes, x.reason = true, m.Text
	if e.serial == 0 && !e.held {
		v.grantVotes(e.key)
		for _, f := range e.key.votes.all() {
			if f.held && !f.residual {
				v.sendContended(f, e)
			}
		}
	}
}

// forwardRevoke asks a new holder to release the key, for the first queued request that carries a
// revoke request.
func (l *sessionLayer) forwardRevoke(f *entry) {
	if f.key.revoking == 0 {
		return
	}
	for _, w := range f.key.queue.all() {
		if w.revokes() && !w.held && !w.try && !w.voteLapsed { // no holder is asked to give way to a TryLock
			l.sendContended(f, w)
			return
		}
	}
}

// revoke passes on a node's request to give a key back. Owners of votes that haven't won yet, as
// far as this voter knows, are told as well: their confirmation may be on its way.
func (l *voteLayer) revoke(conn vote.Conn, from vote.SessionID, m *vote.Message) {
	told := uint64(0)
	if k := l.keys.find(m.Key); k != nil {
		for _, e := range k.votes.all() {
			if m.Token != 0 && (m.Token < e.token.First() || m.Token > e.token) {
				continue // the sender means another lease
			}
			if !e.residual && e.s.takesVotes() {
				if e.held {
					told++
				}
				w := l.push(e.s, vote.KindContended, e.number)
				w.Who, w.Text, w.Revoke, w.Token = from.Node, m.Text, true, m.Token
			}
		}
	}
	p := l.send(conn, vote.KindRevokeForwarded)
	p.Nonce, p.Count = m.Nonce, told
}

// viewEntry returns the view entry of a request.
//
// A vote with a changed token is shown without a token. A majority of votes for one token is a
// lease, and an inspection finds a lease's token by counting such votes; but a requester may ask
// for a larger token, and win with the smaller token before the answer arrives. For a moment, most
// votes then have the larger token, although the lease doesn't.
func (l *sessionLayer) viewEntry(e *entry) vote.View {
	x := e.cold()
	s := vote.View{
		Key: e.key.name, Owner: e.s.id, Number: e.number, Mode: e.mode, Permits: e.permits, Slot: e.slot, Try: e.try, Beside: x.beside,
		Token: e.token, Time: e.time, Version: x.version, Value: x.value,
	}
	if e.held && e.leaseSlot != 0 {
		s.Slot = e.leaseSlot
	}
	switch {
	case e.residual && e.wonAt == 0:
		s.State, s.For = vote.Delayed, l.now.Slow.Sub(e.since)
	case e.residual && (x.length == 0 || x.ends <= l.now.Slow):
		s.State, s.For = vote.Delayed, l.now.Slow.Sub(e.wonAt)
	case e.held:
		s.State, s.For = vote.Holding, l.now.Slow.Sub(e.wonAt)
	case e.serial != 0:
		s.State, s.For = vote.Promised, l.now.Slow.Sub(e.since)
		if e.tokenChanged {
			s.Token = 0
		}
	default:
		s.State, s.For = vote.Waiting, l.now.Slow.Sub(e.since)
	}
	end := x.until
	if end == 0 {
		end = e.s.deadline
	}
	s.Left = max(end.Sub(l.now.Slow), 0)
	switch {
	case x.lasts == 0 || e.residual:
	case s.State == vote.Holding:
		s.Left = max(x.endsAt.Sub(l.now.Slow), 0)
	case s.State == vote.Promised:
		s.Left = x.lasts // the request may have been granted just now
	}
	return s
}
