package lease

import "github.com/lockmesh/lockmesh/internal/vote"

// request takes a wish into its key's queue and serves the key.
func (v *Voter) request(s *session, m *vote.Message) {
	if s.entries[m.Number] != nil {
		return
	}
	e := v.enter(s, vote.Entry{Number: m.Number, Key: m.Key, Time: m.Time, Bid: m.Bid, Mode: m.Mode, Try: m.Try})
	if e == nil {
		v.push(s, vote.Message{Kind: vote.KindBusy, Number: m.Number})
		return
	}
	v.serve(e.key)
	v.tellTaken(e.key)
}

// enter puts a new entry into its key's queue; nil means that the session has too many.
func (v *Voter) enter(s *session, st vote.Entry) *entry {
	if len(s.entries) >= MaxRequests {
		return nil
	}
	k := v.keys[st.Key]
	if k == nil {
		k = &key{name: st.Key}
		v.keys[st.Key] = k
	}
	if st.Token > saneToken {
		st.Token = 0 // no lease has that: it wants the key like any other
	}
	e := &entry{
		s: s, key: k, number: st.Number, bid: st.Bid, mode: st.Mode, try: st.Try,
		stamp:  vote.Stamp{Time: st.Time, Owner: s.id, Number: st.Number},
		held:   st.Token != 0,
		token:  st.Token,
		tenure: s.tenure,
		round:  k.round(),
	}
	if e.round > 0 {
		s.passed++
	}
	s.entries[e.number] = e
	s.ledger = s.ledger.Plus(vote.OfRequest(e.number))
	if e.try {
		k.tries++
	}
	k.insert(e)
	if e.held {
		v.raise(k, e.token)
	}
	return e
}

// serve promises a free key to the next in line, or asks the one who has it whether it must.
func (v *Voter) serve(k *key) {
	if !v.counting() {
		return
	}
	if e := k.next(v.now.Slow); e != nil && k.vacant(e.mode) {
		v.promise(e)
	}
	v.contend(k)
}

// promise gives the key's vote to an entry of its queue.
func (v *Voter) promise(e *entry) {
	k := e.key
	if !v.fit(e) {
		return
	}
	k.remove(e)
	v.serial++
	e.serial, e.since, e.inquired, e.tenured = v.serial, v.now.Slow, false, false
	if !e.held {
		e.token = v.propose(k, e.bid)
	}
	v.raise(k, e.token)
	k.vote = e
	e.s.ledger = e.s.ledger.Plus(vote.OfVote(e.serial))
	v.count.Promises++
	v.push(e.s, vote.Message{Kind: vote.KindPromise, Number: e.number, Serial: e.serial, Token: e.token})
	if e.held {
		v.tellTaken(k)
	}
}

// fit holds the invariants of a promise.
func (v *Voter) fit(e *entry) bool {
	k := e.key
	switch {
	case k.vote != nil:
		v.violated("key %q is promised to %v and to %v at once", k.name, k.owner(), e.s.id)
	case !v.counting():
		v.violated("key %q is promised while quiet", k.name)
	case e.s.deadline <= v.now.Slow:
		v.violated("key %q is promised to session %v, which has ended", k.name, e.s.id)
	case max(k.highest, v.tokens.floor) >= vote.MaxToken:
		v.violated("the tokens of key %q have run out", k.name)
	default:
		return true
	}
	return false
}

// unvote takes a vote back, on its owner's word.
func (v *Voter) unvote(e *entry) {
	e.s.ledger = e.s.ledger.Minus(vote.OfVote(e.serial))
	e.serial = 0
	e.key.vote = nil
}

// contend asks the owner of a tentative promise whether it has won, when somebody older waits behind it or its tenure is over.
// (Inquire and yield: Maekawa 1985, as mended by Sanders 1987.)
func (v *Voter) contend(k *key) {
	e := k.vote
	if e == nil || e.held || e.inquired {
		return
	}
	w := k.next(v.now.Slow)
	if w == nil {
		return
	}
	end := e.since.Add(e.tenure)
	if !w.precedes(e) && v.now.Slow < end {
		v.tenures.add(tenure{end, e.serial, k})
		v.at(end)
		return
	}
	if !e.s.ready() || e.s.muted {
		return // it is asked after its next statement
	}
	e.inquired = true
	v.count.Inquiries++
	v.push(e.s, vote.Message{Kind: vote.KindInquire, Number: e.number, Serial: e.serial})
}

// confirm takes the token that a ballot has settled on. Won makes the vote a lease's: it moves only by its owner's word.
func (v *Voter) confirm(s *session, m *vote.Message) {
	e := s.entries[m.Number]
	if e == nil || m.Token == 0 || m.Token > saneToken {
		return
	}
	switch {
	case e.serial != 0 && e.serial == m.Serial:
	case !m.Won:
		return // a word about a vote that was given back
	case e.serial == 0: // it has won without us and wants our vote too, so that its cover doesn't erode
		k := e.key
		k.remove(e)
		e.held, e.taken, e.token = true, 0, m.Token
		k.insert(e)
		v.raise(k, m.Token)
		v.serve(k)
		v.tellTaken(k)
		return
	default: // the report crossed a promise of ours; if that has another token, the requester will say so when it hears of it
		if m.Token == e.token {
			e.held = true
			v.tellTaken(e.key)
		}
		return
	}
	if !m.Won && m.Token < e.token {
		return
	}
	changed := e.token != m.Token
	e.token = m.Token
	v.raise(e.key, m.Token)
	won := m.Won && !e.held
	e.held = e.held || m.Won
	if changed {
		v.count.Confirms++
		v.push(s, vote.Message{Kind: vote.KindConfirmed, Number: e.number, Serial: e.serial, Token: e.token})
	}
	if won {
		v.tellTaken(e.key)
	}
}

// tellTaken tells the TryLocks that wait which lease has won, and again when that is a newer one.
func (v *Voter) tellTaken(k *key) {
	if k.tries == 0 {
		return
	}
	token := k.won()
	for _, e := range k.queue {
		if e.try && e.taken < token && !e.held && e.s.ready() && !e.s.muted {
			e.taken = token
			v.push(e.s, vote.Message{Kind: vote.KindTaken, Number: e.number, Token: token})
		}
	}
}

// yield takes a vote back from a request that hasn't won, and queues the request again under its old stamp.
func (v *Voter) yield(s *session, m *vote.Message) {
	e := s.entries[m.Number]
	if e == nil || e.serial == 0 || e.serial != m.Serial {
		return
	}
	v.count.Yields++
	v.requeue(e)
	v.serve(e.key)
}

// requeue puts the owner of a vote back into the queue. One that had its tenure goes behind all who wait, once.
func (v *Voter) requeue(e *entry) {
	k := e.key
	over := v.now.Slow >= e.since.Add(e.tenure)
	v.unvote(e)
	e.held = false
	if over && k.next(v.now.Slow) != nil {
		v.count.Tenures++
		e.round = k.round() + 1
		e.s.passed++
		e.tenure = min(2*e.tenure, e.s.ttl)
	}
	k.insert(e)
}

// release ends a request. It can't touch another's vote: it names a request of the session that speaks.
func (v *Voter) release(s *session, m *vote.Message) {
	if e := s.entries[m.Number]; e != nil {
		v.drop(e)
	}
	v.push(s, vote.Message{Kind: vote.KindReleased, Number: m.Number})
}

// drop takes an entry out, with its vote if it has one, and serves the key to the next.
func (v *Voter) drop(e *entry) {
	k := e.key
	if e.serial != 0 {
		v.unvote(e)
	} else {
		k.remove(e)
	}
	if e.held {
		k.over = max(k.over, e.token)
		k.forgetTaken()
	}
	if e.try {
		k.tries--
	}
	delete(e.s.entries, e.number)
	e.s.ledger = e.s.ledger.Minus(vote.OfRequest(e.number))
	v.serve(k)
	if k.idleNow() {
		v.rest(k)
	}
}
