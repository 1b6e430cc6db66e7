package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// A permit is one of a key's slots, and a slot is an exclusive lock of its own: a request wins a
// slot by the votes of a majority. All voters try the slots of a request in the same order, so
// usually all votes are for the same slot. When slots came free in different orders at different
// voters, the votes differ. Then the requester settles on a slot and asks the other voters to move
// their votes: it gives the votes back, and names the slot of use. A voter moves the vote if the
// slot is free, or as soon as a younger pending request has given way. If a lease has the slot, the
// voter gives another slot, and the requester knows that the slot is barred there.

// agreedSlot returns the slot for which a majority has voted (zero for all modes but permits). If
// no slot has a majority though there are votes enough, elected moves votes.
func (l *leaseLayer) agreedSlot(r *request) (vote.Slot, bool) {
	votes := r.voters()
	if r.mode != vote.Permit {
		return 0, l.decides(votes)
	}
	if living := l.stillValid(r, votes); living != votes {
		l.awaitValidity(r)
		// The votes left out may never be valid again.
		votes = living
	}
	if !l.decides(votes) {
		return 0, false
	}
	var best vote.Slot
	var most int
	for i := range r.votes {
		slot := r.votes[i].slot
		if !votes.Has(i) {
			continue
		}
		in := r.inSlot(slot) & votes
		if l.decides(in) {
			return slot, true
		}
		could := in
		for j := range r.votes {
			// The votes of such voters can be moved.
			if votes.Has(j) && l.peers[j].up() && !r.isBarred(j, slot) {
				could = could.With(j)
			}
		}
		if n := in.Len(); l.decides(could) && (n > most || n == most && slot < best) {
			best, most = slot, n
		}
	}
	if best != 0 {
		l.moveTo(r, best)
	}
	return 0, false
}

// stillValid returns the voters out of a set with votes for a request that are valid, now or
// possibly later.
func (l *requestLayer) stillValid(r *request, set Set) Set {
	var own *request
	if r.length() > 0 {
		own = r
	}
	for i, p := range l.peers {
		if l.validityAt(own, i).last() <= l.now.Fast && (!p.up() || l.isBehind(p)) {
			set = set.Without(i)
		}
	}
	return set
}

// moveTo moves the votes for other slots to a slot, except at voters where the slot is barred.
func (l *requestLayer) moveTo(r *request, slot vote.Slot) {
	if slot == 0 {
		return
	}
	for _, p := range l.peers {
		v := &r.votes[p.place]
		if v.stands() && v.slot != slot && p.up() && p.answeredAbout(r) && !r.isBarred(p.place, slot) {
			l.yield(p, r, slot)
		}
	}
}

// settleWantedSlot records whether a new vote is for the requested slot.
func (l *requestLayer) settleWantedSlot(r *request, place int) {
	x := r.coldOf(place)
	if x == nil {
		return
	}
	if x.wantedSlot != 0 && x.wantedSlot != r.votes[place].slot {
		x.barred = append(x.barred, x.wantedSlot)
		l.barred = true
	}
	x.wantedSlot = 0
}

// unbar forgets, once in a while, which slots were barred where: the leases of these slots may be
// over, and no message would say so.
func (q *Requester) unbar() {
	if !q.barred {
		return // a refresh costs the same however many requests there are
	}
	q.barred = false
	q.spend(len(q.requests) / scanned)
	for _, r := range q.sorted(func(r *request) bool { return r.mode == vote.Permit && r.state != stateEnding && r.cold != nil }) {
		barred := false
		for i := range r.cold.votes {
			barred = barred || len(r.cold.votes[i].barred) > 0
			r.cold.votes[i].barred = nil
		}
		if barred {
			q.evaluate(r)
		}
	}
}
