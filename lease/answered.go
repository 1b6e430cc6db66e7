package lease

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// answeredTries has the waiting TryLocks of a key that were answered "held by lease t". They block
// no other request, so they are kept outside of the key's queue: the work for a request doesn't
// grow with the number of TryLocks that were answered and are not released yet by their owners.
//
// A TryLock is in answeredTries exactly as long as its coldFields.taken isn't zero.
type answeredTries struct {
	all []*entry // each at its index coldFields.place, in no particular order
	// barred is how many of them are readers kept from a key of readers by a writer ahead of them.
	barred int
}

// answeredTries returns the TryLocks that were told.
func (k *key) answeredTries() []*entry {
	if k.answered == nil {
		return nil
	}
	return k.answered.all
}

// setAnswered moves a TryLock out of the queue, since lease t blocks the TryLock.
func (l *sessionLayer) setAnswered(e *entry, t vote.Token, barred bool) {
	k := e.key
	x := l.spares.coldFor(e)
	if x.taken == 0 {
		l.dequeue(e)
		if k.answered == nil {
			k.answered = new(answeredTries)
		}
		x.place = uint32(len(k.answered.all))
		k.answered.all = append(k.answered.all, e)
	}
	k.answered.bar(x, barred)
	x.taken = t
}

func (a *answeredTries) bar(x *coldFields, barred bool) {
	if x.barred != barred {
		x.barred = barred
		if barred {
			a.barred++
		} else {
			a.barred--
		}
	}
}

// leaveAnswered takes a TryLock out of the list of those that were told. The caller puts it into
// the queue, or drops it.
func (k *key) leaveAnswered(e *entry) {
	a, x := k.answered, e.coldFields
	a.bar(x, false)
	last := len(a.all) - 1
	moved := a.all[last]
	a.all[x.place], moved.coldFields.place = moved, x.place
	a.all[last] = nil
	a.all = a.all[:last]
	x.taken, x.place = 0, 0
	if last == 0 {
		k.answered = nil
	}
}

// rejoin puts a TryLock that was told back into the queue, if the entry is one.
func (k *key) rejoin(e *entry) {
	if e.cold().taken != 0 {
		k.leaveAnswered(e)
		k.insert(e)
	}
}

// obstacle finds the leases that keep waiting TryLocks from a key.
type obstacle struct {
	k      *key
	any    vote.Token // of the newest lease of the key; zero if there is none
	writer *entry     // the first waiting request that doesn't share the key; nil if there is none
	looked bool       // writer is known
}

func (k *key) obstacle() obstacle { return obstacle{k: k, any: k.won(nil)} }

// to returns the token of the newest lease that keeps a waiting TryLock from the key; zero if there
// is none. A reader may also be barred by a writer ahead of it, who waits for the readers that have
// the key: the reader would have to overtake the writer.
func (o *obstacle) to(e *entry) (t vote.Token, barred bool) {
	switch {
	case o.any == 0:
		return 0, false
	case e.mode == vote.Exclusive && e.cold().beside == 0:
		return o.any, false // it shares the key with no lease
	}
	if t = o.k.won(e); t != 0 || e.mode != vote.Shared {
		return t, false
	}
	if !o.looked {
		o.writer, o.looked = o.k.firstWriter(), true
	}
	if o.writer != nil && o.writer.precedes(e) {
		return o.any, true
	}
	return 0, false
}

// firstWriter returns the first waiting request that doesn't share the key, told TryLocks included.
func (k *key) firstWriter() (first *entry) {
	writes := func(e *entry) bool { return e.mode != vote.Shared }
	queue := k.queue.all()
	if i := slices.IndexFunc(queue, writes); i >= 0 {
		first = queue[i]
	}
	for _, e := range k.answeredTries() {
		if writes(e) && (first == nil || e.precedes(first)) {
			first = e
		}
	}
	return first
}

// notifyTaken sends each waiting TryLock the lease that blocks it, and sends again when another
// lease blocks it: a newer lease, or the newest lease left of several leases that share the key.
// Other voters may have reported only the newly reported lease, and reports of different leases
// don't add up. notifyTaken reports whether a TryLock was notified for the first time, and so no
// longer blocks the queue.
//
// It looks at all TryLocks of the key, so it is called where the leases of the key have changed.
// See notifyWaiting for a request that has come to wait.
func (l *sessionLayer) notifyTaken(k *key) (first bool) {
	if k.tries == 0 {
		return false
	}
	o := k.obstacle()
	if o.any == 0 {
		return false
	}
	l.notifyAnswered(k, &o)
	l.spend(len(k.queue.all()) / scanned)
	return l.notifyQueued(k.queue.all(), &o)
}

// notifyAnswered tells the TryLocks again that were told of another lease.
func (l *sessionLayer) notifyAnswered(k *key, o *obstacle) {
	l.spend(len(k.answeredTries()) / weighed)
	for _, e := range k.answeredTries() {
		l.notify(e, o)
	}
}

// notifyWaiting is notifyTaken for a request that has come to wait: it changes nothing for TryLocks
// ahead of it.
func (l *sessionLayer) notifyWaiting(e *entry) (first bool) {
	k := e.key
	if e.serial != 0 || e.held || e.cold().taken != 0 || k.tries == 0 {
		return false
	}
	o := k.obstacle()
	if o.any == 0 {
		return false
	}
	queue := k.queue.all()
	i, found := slices.BinarySearchFunc(queue, e, (*entry).compare)
	if !found {
		l.violated("request %d of session %v waits for key %q outside its queue",
			e.number, e.s.id, k.name)
		return false
	}
	if e.mode == vote.Shared {
		return l.notifyQueued(queue[i:i+1], &o)
	}
	l.spend((len(queue) - i) / scanned)
	if k.answered != nil && k.answered.barred > 0 {
		l.notifyAnswered(k, &o) // the writer that barred them may have its vote
	}
	return l.notifyQueued(queue[i:], &o)
}

// notifyQueued tells the TryLocks among some entries of a queue.
func (l *sessionLayer) notifyQueued(queue []*entry, o *obstacle) (first bool) {
	var tries []*entry // a TryLock that is told leaves the queue
	for _, e := range queue {
		if e.try && !e.held {
			tries = append(tries, e)
		}
	}
	l.spend(len(tries) / weighed)
	for _, e := range tries {
		first = l.notify(e, o) || first
	}
	return first
}

// notify tells a TryLock which lease keeps it from the key, unless it knows; and reports whether it
// was told for the first time.
func (l *sessionLayer) notify(e *entry, o *obstacle) (first bool) {
	t, barred := o.to(e)
	was := e.cold().taken
	if t == 0 || was == t || !e.s.isReachable() {
		if t != 0 && was == t {
			e.key.answered.bar(e.coldFields, barred)
		}
		return false
	}
	l.setAnswered(e, t, barred)
	l.push(e.s, vote.KindHeld, e.number).Token = t
	return was == 0
}

// forgetTaken makes TryLocks wait again that were told of another winner, if no lease keeps them
// from the key any more. A TryLock that needs this vote still waits; the others are released by
// their owners.
func (l *sessionLayer) forgetTaken(k *key) {
	if k.answered == nil {
		return
	}
	l.spend(len(k.answered.all) / weighed)
	o := k.obstacle()
	var back []*entry
	for _, e := range k.answered.all {
		t, barred := o.to(e)
		if t == 0 {
			back = append(back, e)
		}
		k.answered.bar(e.coldFields, barred)
	}
	for _, e := range back {
		k.leaveAnswered(e)
	}
	k.queue.merge(back)
}
