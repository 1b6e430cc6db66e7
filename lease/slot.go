package lease

import (
	"github.com/lockmesh/lockmesh/internal/vote"
)

// slots is a set of a key's slots.
type slots [(vote.MaxPermits + 64) / 64]uint64

func (s *slots) add(i vote.Slot) {
	if int(i) <= vote.MaxPermits {
		s[i/64] |= 1 << (i % 64)
	}
}

func (s *slots) has(i vote.Slot) bool { return s[i/64]>>(i%64)&1 != 0 }

// useful returns the slot wanted by a request if the key has such a slot; zero for any slot.
func useful(wanted vote.Slot, permits uint16) vote.Slot {
	if wanted > vote.Slot(permits) {
		return 0
	}
	return wanted
}

// compatibleWithAll reports whether e is compatible with all present votes, slots aside. A request
// that overtook an incompatible e would be asked for its vote at once.
func (k *key) compatibleWithAll(e *entry) bool { return k.excluding(e) == nil }

// excluding returns a vote with which e isn't compatible; nil if there is none.
//
// A key may have the votes of thousands of readers, so excluding looks at no more votes than
// needed. All votes of a key are compatible with each other. An exclusive vote stands alone or
// beside the votes of the one shared request that it upgrades: a live vote and perhaps residual
// votes. So once two of the votes are of different requests, and e is compatible with both, then no
// vote is exclusive (or e is the upgraded request), and e is compatible with all. An upgrade is
// compatible only with the votes of the request that it upgrades.
func (k *key) excluding(e *entry) *entry {
	votes := k.votes.all()
	for _, f := range votes {
		if !e.compatible(f) {
			return f
		}
		if !f.isOfRequest(votes[0]) {
			return nil
		}
	}
	return nil
}

// isOfRequest reports whether two votes are of one request.
func (e *entry) isOfRequest(f *entry) bool { return e.number == f.number && e.s.id == f.s.id }

// room reports whether a vote could be promised to e beside the present votes, and in which slot.
// Slots in spokenFor stay free.
func (k *key) room(e *entry, spokenFor *slots) (slot vote.Slot, ok bool) {
	if !k.compatibleWithAll(e) {
		return 0, false
	}
	if e.mode != vote.Permit {
		return 0, true
	}
	used := *spokenFor
	for _, f := range k.votes.all() {
		used.add(f.slot)
	}
	if e.wantedSlot != 0 {
		switch f := k.inSlot(e.wantedSlot); {
		case f == nil && !spokenFor.has(e.wantedSlot):
			return e.wantedSlot, true
		case f != nil && e.blockedBy(f):
			return 0, false // f may have to give way
		}
		// A lease has the wanted slot, so the slot is of no use to e: any other slot will do, and
		// tells e's owner.
	}
	n := vote.Slot(e.permits)
	first := vote.Slot(vote.Scatter(e.s.id, e.number) % uint64(n))
	if e.wantedSlot != 0 {
		// Try the slots after the wanted slot. Starting with the first slot of e's own order, the
		// voter would give e the same slot again whatever e asks for, and e would never learn of
		// other free slots.
		first = e.wantedSlot % n
	}
	for i := range n {
		// All voters try a request's slots in the same order, so that the request gets the same
		// slot from all voters where possible.
		if slot := 1 + (first+i)%n; !used.has(slot) {
			return slot, true
		}
	}
	return 0, false
}

// blockedBy reports whether e, which wants the slot that f has here, is blocked by f. e is blocked
// if f hasn't won. e is also blocked if both have won, and f has won another slot: then this vote
// is of no use to f, and f's owner asks for the right slot at each refresh. If e took a useless
// slot in the meantime, f might wait for the slot taken by e, and the two would never change
// places.
func (e *entry) blockedBy(f *entry) bool {
	return !f.held || e.held && !f.residual && f.leaseSlot != 0 && f.leaseSlot != f.slot
}

// inSlot returns the entry with the vote for a slot; nil if there is none.
func (k *key) inSlot(s vote.Slot) *entry {
	for _, e := range k.votes.all() {
		if e.slot == s {
			return e
		}
	}
	return nil
}

// contend asks the owners of the votes that keep w from the key whether they need the votes.
func (l *voteLayer) contend(k *key, w *entry) {
	if w.mode == vote.Permit && w.wantedSlot != 0 {
		// If a lease has the wanted slot, any other slot will do.
		if f := k.inSlot(w.wantedSlot); f != nil && w.compatible(f) && w.blockedBy(f) {
			if !f.held {
				l.inquireOrNotify(f, w)
			}
			return
		}
	}
	l.spend(2 * len(k.votes.all()) / scanned)
	var youngest *entry
	for _, f := range k.votes.all() {
		switch {
		case w.upgrades(f): // w replaces f
		case !w.compatible(f) || f.held:
			l.inquireOrNotify(f, w)
		// f's owner can't be asked and won't answer: ask for another vote, rather than wait for the
		// end of f's session
		case !f.s.takesVotes():
		case f.inquired:
			return // the answer frees a slot, or shows that f has won
		case youngest == nil || youngest.precedes(f):
			youngest = f
		}
	}
	for _, f := range k.votes.all() {
		// A single slot of those not won yet is enough. But each slot may be pinned by a request
		// that reaches only a minority.
		if w.compatible(f) && !w.upgrades(f) && !f.held && (f == youngest || l.now.Slow >= f.term()) {
			l.inquireOrNotify(f, w)
		}
	}
}

// inquireOrNotify asks the owner of a tentative vote whether the request has won, if w precedes f
// or the vote's proposal timeout is over. (Inquire and yield: Maekawa 1985, as mended by Sanders
// 1987.) A holder is told that a request waits.
func (l *voteLayer) inquireOrNotify(f, w *entry) {
	if f.residual {
		return
	}
	if f.held {
		l.sendContended(f, w)
		return
	}
	if f.inquired {
		return
	}
	if end := f.term(); !w.precedes(f) && l.now.Slow < end {
		l.remind(f, end)
		return
	}
	if !f.s.isReachable() {
		return // f's owner is asked after its next sync
	}
	f.inquired = true
	l.count.Inquiries++
	l.push(f.s, vote.KindInquire, f.number).Serial = f.serial
}

// sendContended tells a holder, once, that another request waits; and once, that the holder is
// asked to give the key back.
func (l *sessionLayer) sendContended(f, w *entry) {
	revoke := w.revokes() && f.asked < askedRevoke
	if w.try || f.asked >= askedContended && !revoke || f.mode == vote.Permit && !revoke || !f.s.isReachable() {
		return
	}
	f.asked = max(f.asked, askedContended)
	m := l.push(f.s, vote.KindContended, f.number)
	m.Who = w.s.id.Node
	if revoke {
		f.asked, m.Revoke, m.Text = askedRevoke, true, w.coldFields.reason
	}
}
