package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// A permit is one of a key's slots, and a slot is an exclusive lock of its own: a request wins one for which a majority votes. Voters try a
// request's slots in the same order, so as a rule all votes are for one slot. Where they aren't, since slots came free in another order here
// than there, the request settles on one and asks the other voters to move their votes: it gives them back and says which slot
// is of use. A voter moves if that slot is free, or as soon as a younger request that hasn't won has given way; if a lease has it, the
// voter gives another, and the requester knows that it is barred there.

// elected returns the slot for which a majority has voted (zero for all modes but permits). If there is none though
// there are votes enough, it has votes moved.
func (q *Requester) elected(r *request) (vote.Slot, bool) {
	votes := r.set()
	if r.mode != vote.Permit {
		return 0, q.decides(votes)
	}
	if living := q.living(r, votes); living != votes {
		q.await(r)
		votes = living // what the others have voted for may never be covered again
	}
	if !q.decides(votes) {
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
		if q.decides(in) {
			return slot, true
		}
		could := in
		for j := range r.votes {
			if votes.Has(j) && q.peers[j].up() && !r.bars(j, slot) { // whose votes can be moved
				could = could.With(j)
			}
		}
		if n := in.Len(); q.decides(could) && (n > most || n == most && slot < best) {
			best, most = slot, n
		}
	}
	if best != 0 {
		q.moveTo(r, best)
	}
	return 0, false
}

// living returns those out of a set of voters whose votes for a request are covered, or can be.
func (q *Requester) living(r *request, set Set) Set {
	var own *request
	if r.length() > 0 {
		own = r
	}
	for i, p := range q.peers {
		if q.covered(own, i).last() <= q.now.Fast && (!p.up() || q.behind(p)) {
			set = set.Without(i)
		}
	}
	return set
}

// moveTo has the votes for other slots moved to one, where it isn't barred.
func (q *Requester) moveTo(r *request, slot vote.Slot) {
	if slot == 0 {
		return
	}
	for _, p := range q.peers {
		v := &r.votes[p.place]
		if v.stands() && v.slot != slot && p.up() && p.answered && !r.bars(p.place, slot) {
			q.yield(p, r, slot)
		}
	}
}

// settleWant notes whether a vote that has come is for the slot that was asked for.
func (q *Requester) settleWant(r *request, place int) {
	x := r.rareOf(place)
	if x == nil {
		return
	}
	if x.want != 0 && x.want != r.votes[place].slot {
		x.barred = append(x.barred, x.want)
		q.barred = true
	}
	x.want = 0
}

// unbar forgets which slots were barred where, once in a while: leases that had them may be over, and nothing else would say so.
func (q *Requester) unbar() {
	if !q.barred {
		return // a refresh costs the same however many requests there are
	}
	q.barred = false
	for _, r := range q.sorted(func(r *request) bool { return r.mode == vote.Permit && r.state != stateEnding && r.rare != nil }) {
		barred := false
		for i := range r.rare.votes {
			barred = barred || len(r.rare.votes[i].barred) > 0
			r.rare.votes[i].barred = nil
		}
		if barred {
			q.judge(r)
		}
	}
}
