package lease

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// request takes a wish into its key's queue and serves the key.
func (v *Voter) request(s *session, m *vote.Message) {
	if s.entries[m.Number] != nil {
		return
	}
	e, why := v.enter(s, &vote.Entry{Number: m.Number, Wish: m.Wish, Time: m.Time, Bid: m.Bid})
	if e == nil {
		v.push(s, why)
		return
	}
	k := e.key
	v.serve(k)
	v.tellTaken(k)
	if s.entries[e.number] == e {
		v.reportWait(e)
	}
}

// enter puts a new entry into its key's queue. If it can't, it returns the message that says why.
func (v *Voter) enter(s *session, st *vote.Entry) (*entry, vote.Message) {
	if len(s.entries) >= MaxRequests || !v.serves(&st.Wish) {
		return nil, vote.Message{Kind: vote.KindBusy, Number: st.Number}
	}
	k := v.keys[st.Key]
	if k == nil {
		k = &key{name: st.Key}
		v.keys[st.Key] = k
	}
	token := st.Token
	if token > saneToken {
		token = 0 // no lease has that: it wants the key like any other
	}
	if !k.suits(&st.Wish) && token == 0 {
		return nil, vote.Message{Kind: vote.KindUnfit, Number: st.Number, Wish: vote.Wish{Permits: k.permits}}
	}
	e := &entry{
		Wish: st.Wish, s: s, key: k, number: st.Number, bid: st.Bid,
		stamp:  vote.Stamp{Time: st.Time, Owner: s.id, Number: st.Number},
		held:   token != 0,
		token:  token,
		want:   useful(st.Slot, st.Permits),
		has:    useful(st.Slot, st.Permits),
		from:   v.now.Slow,
		tenure: s.tenure,
	}
	e.round = k.roundOf(s, e.stamp)
	e.Delay, e.MinHold, e.Length = v.within(e.Delay), v.within(e.MinHold), v.within(e.Length)
	if e.held {
		e.wonAt = v.now.Slow
	}
	if e.round > 0 {
		s.passed++
	}
	s.entries[e.number] = e
	s.ledger = s.ledger.Plus(vote.OfRequest(e.number))
	if e.Try {
		k.tries++
	}
	if !v.adopt(e, st.Yielded) {
		k.insert(e)
	}
	if e.held {
		v.raise(k, e.token)
		v.report(vote.Holding, e)
	}
	if e.Beside != 0 {
		v.settleClash(k)
	}
	return e, vote.Message{}
}

// serves reports whether a wish is one that a voter can serve at all. A length beyond what it may promise isn't cut: its owner would count on the rest.
func (v *Voter) serves(w *vote.Wish) bool {
	return w.Length <= v.cfg.MaxTTL && (w.Mode != vote.Permit || w.Permits > 0 && w.Permits <= vote.MaxPermits)
}

// settleClash turns away all upgrades of a key but the oldest: each waits for what the others hold, so they would wait for ever. Two beside
// the same request hold nothing more than that, and follow upon each other.
func (v *Voter) settleClash(k *key) {
	var upgrades []*entry
	for _, e := range slices.Concat(k.votes, k.queue) {
		if e.Beside != 0 && !e.held && !e.ghost {
			upgrades = append(upgrades, e)
		}
	}
	if len(upgrades) < 2 {
		return
	}
	first := slices.MinFunc(upgrades, func(e, f *entry) int { return e.stamp.Compare(f.stamp) })
	for _, e := range upgrades {
		if e != first && (e.s.id != first.s.id || e.Beside != first.Beside) {
			v.push(e.s, vote.Message{Kind: vote.KindClash, Number: e.number})
		}
	}
}

// serve promises a key to those next in line for whom there is room, and asks those who keep the first of the others from it whether they must.
func (v *Voter) serve(k *key) {
	if !v.counting() {
		return
	}
	var spokenFor slots
	for i := 0; i < len(k.queue); {
		e := k.queue[i]
		if !e.hears(v.now.Slow) {
			i++
			continue
		}
		if slot, ok := k.room(e, &spokenFor); ok {
			if !v.promise(e, slot) {
				return
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
	e.serial, e.slot, e.want, e.since, e.until = v.serial, slot, 0, v.now.Slow, 0
	e.inquired, e.wanted, e.urged, e.timed, e.grace = false, false, false, 0, k.grace
	if !e.held {
		e.token = v.propose(k, e.bid)
	}
	v.raise(k, e.token)
	k.votes = append(k.votes, e)
	e.s.ledger = e.s.ledger.Plus(vote.OfVote(e.serial))
	v.count.Promises++
	if e.s.ready() && !e.s.muted {
		e.wanted = k.isWanted()
	}
	v.push(e.s, vote.Message{Kind: vote.KindPromise, Number: e.number, Serial: e.serial, Slot: slot, Token: e.token, Urge: e.wanted, Elected: v.elected.Version})
	if e.held {
		v.tellTaken(k)
	}
	return true
}

// fit holds the invariants of a promise.
func (v *Voter) fit(e *entry, slot vote.Slot) bool {
	k := e.key
	for _, f := range k.votes {
		if !e.bears(f) || slot != 0 && f.slot == slot {
			v.violated("key %q is promised to %v and to %v at once", k.name, f.stamp.Owner, e.s.id)
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
	k.votes = slices.DeleteFunc(k.votes, func(f *entry) bool { return f == e })
	if len(k.votes) == 0 {
		k.spent = nil
	} else if e.Mode != vote.Exclusive {
		k.spend(e.token)
	}
	e.serial, e.slot, e.until = 0, 0, 0
}

// confirm takes the token that a ballot has settled on. Won makes the vote a lease's: it moves only by its owner's word.
func (v *Voter) confirm(s *session, m *vote.Message) {
	e := s.entries[m.Number]
	if e == nil || m.Token == 0 || m.Token > saneToken {
		return
	}
	k := e.key
	if m.Won {
		e.has = useful(m.Slot, e.Permits)
	}
	switch {
	case e.serial != 0 && e.serial == m.Serial:
	case !m.Won:
		return // a word about a vote that was given back
	case e.serial == 0: // it has won without us and wants our vote too, so that its cover doesn't erode
		k.remove(e)
		e.taken, e.dormant, e.token, e.want = 0, false, m.Token, useful(m.Slot, e.Permits)
		v.wins(e)
		k.insert(e)
		v.raise(k, m.Token)
		v.serve(k)
		v.tellTaken(k)
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
		v.push(s, vote.Message{Kind: vote.KindConfirmed, Number: e.number, Serial: e.serial, Token: e.token})
	}
	if m.Won && !e.held {
		v.wins(e)
		v.tellTaken(k)
		v.serve(k) // it may have to be told that it is waited for, and who waits for its slot hears that this is a lease's
		v.passOnUrge(e)
	}
}

// wins notes that an entry's owner says that it has won.
func (v *Voter) wins(e *entry) {
	if !e.held {
		e.held, e.wonAt = true, v.now.Slow
		v.report(vote.Holding, e)
	}
}

// tellTaken tells the TryLocks that wait which lease keeps them from the key, and again when that is a newer one.
func (v *Voter) tellTaken(k *key) {
	k.eachTry(func(e *entry, t vote.Token) {
		if e.taken < t && e.s.ready() && !e.s.muted {
			e.taken = t
			v.push(e.s, vote.Message{Kind: vote.KindTaken, Number: e.number, Token: t})
		}
	})
}

// yield takes a vote back from a request that hasn't won, or has won another slot, and queues the request again under its old stamp.
func (v *Voter) yield(s *session, m *vote.Message) {
	e := s.entries[m.Number]
	if e == nil || e.serial == 0 || e.serial != m.Serial {
		return
	}
	v.count.Yields++
	v.requeue(e, m.Slot)
	v.serve(e.key)
	v.tellTaken(e.key)
}

// requeue puts the owner of a vote back into the queue. One that had its tenure goes behind all who wait, once.
func (v *Voter) requeue(e *entry, want vote.Slot) {
	k := e.key
	over := v.now.Slow >= e.term()
	v.unvote(e)
	e.want = useful(want, e.Permits)
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
	if e := s.entries[m.Number]; e != nil && e.Mode == vote.Exclusive {
		e.Mode = vote.Shared
		if e.held {
			v.report(vote.Changed, e)
		}
		e.key.forgetTaken()
		v.serve(e.key)
	}
}

// release ends a request. It can't touch another's vote: it names a request of the session that speaks.
func (v *Voter) release(s *session, m *vote.Message) {
	if e := s.entries[m.Number]; e != nil {
		v.drop(e, m.Lost)
	}
	v.push(s, vote.Message{Kind: vote.KindReleased, Number: m.Number})
}

// drop takes an entry out, with its vote if it has one, and serves the key to the next. Lapsed says that its owner didn't give
// it back. Then, or if it was won too short a time ago, the vote may have to stand for a while.
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
	if over && e.held && e.Mode == vote.Exclusive {
		k.over = max(k.over, e.token)
	}
	if e.Try {
		k.tries--
	}
	if e.urges() {
		k.urging--
	}
	delete(e.s.entries, e.number)
	e.s.ledger = e.s.ledger.Minus(vote.OfRequest(e.number))
	k.forgetTaken()
	v.serve(k)
	v.tellTaken(k)
	if k.idleNow() {
		v.rest(k)
	}
}
