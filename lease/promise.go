package lease

import (
	"github.com/lockmesh/lockmesh/internal/vote"
)

// request takes a wish into its key's queue and serves the key.
func (v *Voter) request(s *session, m *vote.Message) {
	if s.entries.m[m.Number] != nil {
		return
	}
	e, why := v.enter(s, &vote.Entry{Number: m.Number, Wish: m.Wish, Time: m.Time, Bid: m.Bid})
	if e == nil {
		v.turnAway(s, &why)
		return
	}
	v.attend(e.key)
	v.reportWait(e)
}

// refusal says why a request wasn't taken in.
type refusal struct {
	kind    vote.Kind
	number  vote.Number
	permits uint16
}

func (v *Voter) turnAway(s *session, why *refusal) {
	v.push(s, why.kind, why.number).Permits = why.permits
}

// enter puts a new entry into its key's queue. If it can't, it returns why.
func (v *Voter) enter(s *session, st *vote.Entry) (*entry, refusal) {
	if len(s.entries.m) >= MaxRequests || !v.serves(&st.Wish) {
		return nil, refusal{kind: vote.KindBusy, number: st.Number}
	}
	k := v.keys.m[st.Key]
	if k == nil {
		k = v.spareKeys.get()
		k.name = st.Key
		v.keys.put(st.Key, k)
	}
	token := st.Token
	if token > saneToken {
		token = 0 // no lease has that: it wants the key like any other
	}
	if !k.suits(&st.Wish) && token == 0 {
		return nil, refusal{vote.KindUnfit, st.Number, k.permits}
	}
	e := v.spareEntries.get()
	*e = entry{
		s: s, key: k, number: st.Number, time: st.Time, bid: st.Bid,
		mode: st.Mode, permits: st.Permits, try: st.Try,
		held:   token != 0,
		token:  token,
		want:   useful(st.Slot, st.Permits),
		has:    useful(st.Slot, st.Permits),
		since:  v.now.Slow,
		tenure: s.tenure,
	}
	v.wishes(e, &st.Wish)
	e.round = k.roundOf(e)
	if e.held {
		e.wonAt = v.now.Slow
	}
	if e.round > 0 {
		s.passed++
	}
	s.entries.put(e.number, e)
	s.ledger = s.ledger.Plus(vote.OfRequest(e.number))
	if e.try {
		k.tries++
	}
	if !v.adopt(e, st.Yielded) {
		k.insert(e)
	}
	if e.held {
		v.raise(k, e.token)
		v.report(vote.Holding, e)
	}
	if st.Beside != 0 {
		v.settleClash(k)
	}
	return e, refusal{}
}

// serves reports whether a wish is one that a voter can serve at all. A length beyond what it may promise isn't cut: its owner would count on the rest.
func (v *Voter) serves(w *vote.Wish) bool {
	return w.Length <= v.cfg.MaxTTL && (w.Mode != vote.Permit || w.Permits > 0 && w.Permits <= vote.MaxPermits)
}

// settleClash turns away all upgrades of a key but the oldest: each waits for what the others hold, so they would wait for ever. Two beside
// the same request hold nothing more than that, and follow upon each other.
func (v *Voter) settleClash(k *key) {
	lists := [...][]*entry{k.votes.all(), k.queue.all()}
	var first *entry
	n := 0
	for _, all := range lists {
		for _, e := range all {
			if e.clashes() {
				if n++; first == nil || e.older(first) < 0 {
					first = e
				}
			}
		}
	}
	if n < 2 {
		return
	}
	for _, all := range lists {
		for _, e := range all {
			if e != first && e.clashes() && (e.s.id != first.s.id || e.rare().beside != first.rare().beside) {
				v.push(e.s, vote.KindClash, e.number)
			}
		}
	}
}

// clashes reports whether the entry is an upgrade that waits for what other upgrades may hold.
func (e *entry) clashes() bool { return e.rare().beside != 0 && !e.held && !e.ghost }

// serve promises a key to those next in line for whom there is room, and asks those who keep the first of the others from it whether they must.
func (v *Voter) serve(k *key) {
	if k.queue.empty() || !v.counting() {
		return
	}
	var spokenFor slots
	for i := 0; i < len(k.queue.all()); {
		e := k.queue.all()[i]
		if !e.hears(v.now.Slow) {
			i++
			continue
		}
		slot, ok := k.room(e, &spokenFor)
		back := !ok && v.takeBack(e, &spokenFor)
		if back {
			slot, ok = k.room(e, &spokenFor)
		}
		if ok {
			if !v.promise(e, slot) {
				return
			}
			if back { // TryLocks before it may have been told of the ghost, and have to ask for the vote now
				k.forgetTaken()
				i = 0
			}
			continue
		}
		v.contend(k, e)
		if e.want == 0 || !k.bearsAll(e) {
			return // nobody passes it
		}
		spokenFor.add(e.want) // others may have the other slots
		i++
	}
}

// promise gives a vote of the key to an entry of its queue.
func (v *Voter) promise(e *entry, slot vote.Slot) bool {
	k := e.key
	if !v.fit(e, slot) {
		return false
	}
	k.remove(e)
	v.serial++
	e.serial, e.slot, e.want = v.serial, slot, 0
	v.votedAt(e, v.now.Slow)
	e.inquired, e.wanted, e.urged = false, false, false
	if e.extras != nil || v.grace != 0 {
		x := v.extra(e)
		x.until, x.timed, x.grace = 0, 0, v.grace
	}
	if !e.held {
		e.token = v.propose(k, e.bid)
	}
	v.raise(k, e.token)
	k.votes.add(e)
	e.s.ledger = e.s.ledger.Plus(vote.OfVote(e.serial))
	v.count.Promises++
	if e.s.ready() && !e.s.muted {
		e.wanted = k.isWanted()
	}
	m := v.push(e.s, vote.KindPromise, e.number)
	m.Serial, m.Slot, m.Token, m.Urge, m.Elected = e.serial, slot, e.token, e.wanted, v.elected.Version
	if e.held {
		v.tellTaken(k)
	}
	return true
}

// fit holds the invariants of a promise.
func (v *Voter) fit(e *entry, slot vote.Slot) bool {
	k := e.key
	for _, f := range k.votes.all() {
		if !e.bears(f) || slot != 0 && f.slot == slot {
			v.violated("key %q is promised to %v and to %v at once", k.name, f.s.id, e.s.id)
			return false
		}
	}
	switch {
	case !v.counting():
		v.violated("key %q is promised while quiet", k.name)
	case e.s.deadline <= v.now.Slow:
		v.violated("key %q is promised to session %v, which has ended", k.name, e.s.id)
	case max(k.highest, v.tokens.floor) >= vote.MaxToken-vote.Run:
		v.violated("the tokens of key %q have run out", k.name)
	default:
		return true
	}
	return false
}

// unvote takes a vote back.
func (v *Voter) unvote(e *entry) {
	k := e.key
	if !e.ghost {
		e.s.ledger = e.s.ledger.Minus(vote.OfVote(e.serial))
	}
	k.votes.remove(e)
	if k.votes.empty() {
		k.forgetSpent()
	} else if e.mode != vote.Exclusive {
		k.spend(e.token)
	}
	e.voteless()
}

// confirm takes the token that a ballot has settled on. Won makes the vote a lease's: it moves only by its owner's word.
func (v *Voter) confirm(s *session, m *vote.Message) {
	e := s.entries.m[m.Number]
	if e == nil || m.Token == 0 || m.Token > saneToken {
		return
	}
	k := e.key
	if m.Won {
		e.has = useful(m.Slot, e.permits)
	}
	switch {
	case e.serial != 0 && e.serial == m.Serial:
	case !m.Won:
		return // a word about a vote that was given back
	case e.serial == 0: // it has won without us and wants our vote too, so that its cover doesn't erode
		k.remove(e)
		e.dormant, e.token, e.want = false, m.Token, useful(m.Slot, e.permits)
		if e.extras != nil {
			e.extras.taken = 0
		}
		v.wins(e)
		k.insert(e)
		v.raise(k, m.Token)
		v.attend(k)
		return
	default: // the report crossed a promise of ours; if that has another token or slot, the requester will say so when it hears of it
		if m.Token == e.token && m.Slot == e.slot {
			v.wins(e)
			v.tellTaken(k)
			v.serve(k)
		}
		return
	}
	if !m.Won && m.Token < e.token {
		return
	}
	t := m.Token
	if !m.Won {
		t = v.unique(e, t)
	}
	changed := e.token != t
	e.token = t
	v.raise(k, t)
	if changed {
		v.count.Confirms++
		v.confirmed(e)
	}
	if m.Won && !e.held {
		v.wins(e)
		v.tellTaken(k)
		v.serve(k) // it may have to be told that it is waited for, and who waits for its slot hears that this is a lease's
		v.passOnUrge(e)
	}
}

// confirmed tells an entry's owner which token its vote has now.
func (v *Voter) confirmed(e *entry) {
	m := v.push(e.s, vote.KindConfirmed, e.number)
	m.Serial, m.Token = e.serial, e.token
}

// wins notes that an entry's owner says that it has won.
func (v *Voter) wins(e *entry) {
	if !e.held {
		e.held, e.wonAt = true, v.now.Slow
		v.report(vote.Holding, e)
	}
}

// tellTaken tells the TryLocks that wait which lease keeps them from the key, and again when that is another one: a newer one, or the newest that is left of
// several that share the key. Others may have told of that one only, and words about two leases don't add up. (Seed 482979904 of lingering worlds.)
// It reports whether one was told that stood in line until then.
func (v *Voter) tellTaken(k *key) (aside bool) {
	k.eachTry(func(e *entry, t vote.Token) {
		if was := e.rare().taken; t != 0 && was != t && e.s.ready() && !e.s.muted {
			v.extra(e).taken = t
			v.push(e.s, vote.KindTaken, e.number).Token = t
			aside = aside || was == 0
		}
	})
	return aside
}

// attend serves a key and tells TryLocks what keeps them from it; then whoever stood behind one of those is served, too.
func (v *Voter) attend(k *key) {
	v.serve(k)
	if v.tellTaken(k) {
		v.serve(k)
	}
}

// yield takes a vote back from a request that hasn't won, or has won another slot, and queues the request again under its old stamp.
func (v *Voter) yield(s *session, m *vote.Message) {
	e := s.entries.m[m.Number]
	if e == nil || e.serial == 0 || e.serial != m.Serial {
		return
	}
	v.count.Yields++
	v.requeue(e, m.Slot)
	v.attend(e.key)
}

// requeue puts the owner of a vote back into the queue. One that had its tenure goes behind all who wait, once.
func (v *Voter) requeue(e *entry, want vote.Slot) {
	k := e.key
	over := v.now.Slow >= e.term()
	v.unvote(e)
	e.want = useful(want, e.permits)
	if e.want == 0 {
		e.held = false
	}
	if over && !e.held && e.want == 0 && k.next(v.now.Slow) != nil {
		v.count.Tenures++
		e.round = k.round() + 1
		e.s.passed++
		e.tenure = min(2*e.tenure, e.s.ttl)
	}
	k.insert(e)
	if e.want == 0 {
		v.reportWait(e)
	}
}

// share turns an exclusive lease into a shared one, on its owner's word, and lets others in beside it.
func (v *Voter) share(s *session, m *vote.Message) {
	if e := s.entries.m[m.Number]; e != nil && e.mode == vote.Exclusive {
		e.mode = vote.Shared
		if e.held {
			v.report(vote.Changed, e)
		}
		e.key.forgetTaken()
		v.attend(e.key)
	}
}

// release ends a request. It can't touch another's vote: it names a request of the session that speaks.
func (v *Voter) release(s *session, m *vote.Message) {
	if e := s.entries.m[m.Number]; e != nil {
		v.bid = m.Bid
		v.drop(e, m.Lost)
		v.bid = 0
	}
	v.push(s, vote.KindReleased, m.Number)
}

// drop takes an entry out, with its vote if it has one, and serves the key to the next; the entry is no more. Lapsed says that its owner
// didn't give it back. Then, or if it was won too short a time ago, the vote may have to stand for a while.
func (v *Voter) drop(e *entry, lapsed bool) {
	k := e.key
	over := true
	until := v.stays(e, lapsed)
	v.reportEnd(e, lapsed, until)
	switch {
	case e.serial == 0:
		k.remove(e)
	case until > v.now.Slow:
		v.leaveGhost(e, until, lapsed)
		over = false
	default:
		v.unvote(e)
	}
	if over && e.held && e.mode == vote.Exclusive {
		k.over = max(k.over, e.token)
	}
	if e.try {
		k.tries--
	}
	if e.urges() {
		k.urging--
	}
	e.s.entries.take(e.number)
	e.s.ledger = e.s.ledger.Minus(vote.OfRequest(e.number))
	k.forgetTaken()
	v.attend(k)
	if k.idleNow() {
		v.rest(k)
	}
	v.discard(e)
}
