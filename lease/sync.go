package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// sync collects the chunks of a sync (vote.KindSync). At the end mark the sync takes effect.
func (v *Voter) sync(s *session, m *vote.Message) {
	if s.phase != streamListing {
		return // the sync has ended; the next sync needs a new stream
	}
	if len(s.listed)+len(m.Entries) > MaxRequests {
		v.closeConn(s.conn)
		v.unlink(s)
		return
	}
	s.listed = append(s.listed, m.Entries...)
	if m.End {
		s.moveTo(streamWaiting)
		if s.claim == claimOwner {
			v.goOn(s)
		}
	}
}

// goOn goes on with the stream of a session that owns its name. A complete sync is applied as soon
// as the cleanup after an earlier session of the same incarnation is finished: only votes that
// outlast the earlier session are left then. If messages after the sync were not processed, the
// node has to resync.
func (v *Voter) goOn(s *session) {
	switch {
	case s.phase == streamMissed:
		s.moveTo(streamVoid)
		v.unknown(s.conn, s.stream)
	case s.phase == streamWaiting && !v.ending(s.id):
		v.apply(s)
	}
}

// updateListed updates a known entry from its owner's sync.
func (v *Voter) updateListed(e *entry, st *vote.Entry) {
	k := e.key
	trusted := st.Token != 0 && v.takes(e.s, st.Token, k.name)
	won := st.Token != 0 && (trusted || !v.quiet.over)
	switch {
	case e.serial != 0 && (e.serial <= st.Yielded || won && st.Slot != 0 && st.Slot != e.slot):
		v.requeue(e, st.Slot)
	case v.voteUnreceived(e, st):
		v.count.Unreceived++
		v.requeue(e, st.Slot)
	}
	e.inquired, e.asked = false, askedNothing
	if !trusted { // of a lease, wins does it
		v.revive(e)
	}
	if e.coldFields != nil {
		e.coldFields.counts = false
	}
	k.rejoin(e)
	if e.mode == vote.Exclusive && st.Mode == vote.Shared {
		e.mode = vote.Shared
		v.forgetTaken(k)
		if e.held {
			v.report(vote.Changed, e)
		}
	}
	if e.serial == 0 {
		v.dequeue(e)
		defer k.insert(e)
		e.wantedSlot = useful(st.Slot, e.permits)
	}
	if !won {
		return
	}
	e.leaseSlot = useful(st.Slot, e.permits)
	if !trusted {
		if e.serial == 0 { // an existing vote keeps its own token
			e.holdUnchecked(v.now.Slow, st.Token)
		}
		return
	}
	v.raise(k, st.Token)
	e.token = st.Token
	v.wins(e)
}
