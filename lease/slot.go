package lease

import (
	"slices"

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

// useful returns the slot that a request wants, if its key has such a one; zero for any.
func useful(want vote.Slot, permits uint16) vote.Slot {
	if want > vote.Slot(permits) {
		return 0
	}
	return want
}

// bearsAll reports whether e may have a vote beside all that stand, slots aside. Whoever passed one that may not would be asked for the vote at once.
func (k *key) bearsAll(e *entry) bool {
	return !slices.ContainsFunc(k.votes.all(), func(f *entry) bool { return !e.bears(f) })
}

// room reports whether a vote could be promised to e beside those that stand, and in which slot. Slots that are spoken for stay free.
func (k *key) room(e *entry, spokenFor *slots) (slot vote.Slot, ok bool) {
	if !k.bearsAll(e) {
		return 0, false
	}
	if e.mode != vote.Permit {
		return 0, true
	}
	used := *spokenFor
	for _, f := range k.votes.all() {
		used.add(f.slot)
	}
	if e.want != 0 {
		switch f := k.inSlot(e.want); {
		case f == nil && !spokenFor.has(e.want):
			return e.want, true
		case f != nil && e.awaits(f):
			return 0, false // it may have to give way
		}
		// A lease has that slot, so it is of no use: any other will do, and tells e's owner.
	}
	n := vote.Slot(e.permits)
	first := vote.Slot(vote.Scatter(e.s.id, e.number) % uint64(n))
	if e.want != 0 {
		first = e.want % n // the ones after it: with the first of its own it would be given the same one again, whatever it asks for, and never hear of others that are free
	}
	for i := range n {
		// All voters try a request's slots in the same order, so that they give it the same one where they can.
		if slot := 1 + (first+i)%n; !used.has(slot) {
			return slot, true
		}
	}
	return 0, false
}

// awaits reports whether e, which wants the slot that f has here, waits for that. It does where f hasn't won; and where both have, and f has won another slot, so that its vote
// is of no use to it: its owner asks for the other at each refresh. If e took one that it has no use for meanwhile, f might wait for that one, and they would never change places.
func (e *entry) awaits(f *entry) bool {
	return !f.held || e.held && !f.ghost && f.has != 0 && f.has != f.slot
}

// inSlot returns who has the vote of a slot.
func (k *key) inSlot(s vote.Slot) *entry {
	for _, e := range k.votes.all() {
		if e.slot == s {
			return e
		}
	}
	return nil
}

// contend asks those whose votes keep w from the key whether they must have them.
func (v *Voter) contend(k *key, w *entry) {
	if w.mode == vote.Permit && w.want != 0 {
		if f := k.inSlot(w.want); f != nil && w.bears(f) && w.awaits(f) { // if a lease has it, any other will do
			if !f.held {
				v.press(f, w)
			}
			return
		}
	}
	var youngest *entry
	for _, f := range k.votes.all() {
		switch {
		case w.upgrades(f): // it takes the place of that one
		case !w.bears(f) || f.held:
			v.press(f, w)
		case !f.s.ready(): // it can't be asked, nor does it answer: others aren't to wait for its session's end
		case f.inquired:
			return // a slot comes free, or will be known not to
		case youngest == nil || youngest.precedes(f):
			youngest = f
		}
	}
	for _, f := range k.votes.all() {
		// Of the slots that haven't been won one is enough. But each may be pinned by a request that reaches a minority only.
		if w.bears(f) && !w.upgrades(f) && !f.held && (f == youngest || v.now.Slow >= f.term()) {
			v.press(f, w)
		}
	}
}

// press asks the owner of a tentative vote whether it has won, when w is older or its tenure is over. (Inquire and yield: Maekawa 1985, as
// mended by Sanders 1987.) A holder is told that it is waited for.
func (v *Voter) press(f, w *entry) {
	if f.ghost {
		return
	}
	if f.held {
		v.tellWanted(f, w)
		return
	}
	if f.inquired {
		return
	}
	if end := f.term(); !w.precedes(f) && v.now.Slow < end {
		v.remind(f, end)
		return
	}
	if !f.s.ready() || f.s.muted {
		return // it is asked after its next statement
	}
	f.inquired = true
	v.count.Inquiries++
	v.push(f.s, vote.KindInquire, f.number).Serial = f.serial
}

// tellWanted tells a holder that somebody waits, once; and once that it is asked to give the key back.
func (v *Voter) tellWanted(f, w *entry) {
	urge := w.urges() && !f.urged
	if w.try || f.wanted && !urge || f.mode == vote.Permit && !urge || !f.s.ready() || f.s.muted {
		return
	}
	f.wanted = true
	m := v.push(f.s, vote.KindWanted, f.number)
	m.Who = w.s.id.Node
	if urge {
		f.urged, m.Urge, m.Text = true, true, w.extras.why
	}
}
