package lease

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// request puts a new request into the queue of its key, and schedules the key.
func (v *Voter) request(s *session, m *vote.Message) {
	if s.entries.m[m.Number] != nil {
		return
	}
	e, r := v.enter(s, &vote.Entry{Number: m.Number, Spec: m.Spec, Time: m.Time, TokenHint: m.TokenHint})
	if e == nil {
		v.sendRejection(s, &r)
		return
	}
	v.scheduleRequest(e)
	v.reportWait(e)
}

// refusal says why a request was rejected.
type refusal struct {
	kind    vote.Kind
	number  vote.Number
	permits uint16
}

func (l *sessionLayer) sendRejection(s *session, r *refusal) {
	l.push(s, r.kind, r.number).Permits = r.permits
}

// enter puts a new entry into the queue of its key. If the voter rejects the request, enter returns
// the reason.
func (v *Voter) enter(s *session, st *vote.Entry) (*entry, refusal) {
	if len(s.entries.m) >= MaxRequests || !v.canGrant(&st.Spec) {
		return nil, refusal{kind: vote.KindBusy, number: st.Number}
	}
	k := v.keys.find(st.Key)
	if k == nil {
		k = v.spares.keys.get()
		k.name = st.Key
		v.keys.keep(k)
	}
	token := st.Token
	trusted := token == 0 || v.takes(s, token, st.Key)
	if !trusted && (v.quiet.over || len(v.votes.residuals[s.id][st.Number]) > 0) {
		// As far as the voter knows, no lease has this token: the request waits for the key as any
		// other request does. A vote of the request that still stands has another token.
		token = 0
	}
	if !v.suits(k, &st.Spec) && token == 0 {
		return nil, refusal{vote.KindPermitsDiffer, st.Number, k.permits}
	}
	e := v.spares.entries.get()
	*e = entry{
		s: s, key: k, number: st.Number, time: st.Time, tokenHint: st.TokenHint,
		mode: st.Mode, permits: st.Permits, try: st.Try,
		held:            token != 0,
		token:           token,
		wantedSlot:      useful(st.Slot, st.Permits),
		leaseSlot:       useful(st.Slot, st.Permits),
		since:           v.now.Slow,
		proposalTimeout: s.proposalTimeout,
	}
	v.setSpec(e, &st.Spec)
	e.round = v.roundOf(e)
	if e.held {
		e.hold(v.now.Slow)
	}
	if e.round > 0 {
		s.noteDemoted(e)
	}
	s.entries.put(e.number, e)
	e.at = uint32(len(s.all))
	s.all = append(s.all, e)
	s.digest = s.digest.Plus(vote.DigestOfRequest(e.number))
	k.count(e, 1)
	if !v.reclaim(e, st.Yielded) {
		k.insert(e)
	}
	if e.held && trusted {
		v.raise(k, e.token)
		v.report(vote.Holding, e)
	}
	if st.Beside != 0 {
		v.settleClash(k)
	}
	return e, refusal{}
}

// canGrant reports whether a voter can grant votes to a request specification at all. A length
// above the configured maximum TTL isn't cut: the owner would count on the rest.
func (l *sessionLayer) canGrant(w *vote.Spec) bool {
	return w.Length <= l.mayAsk() && (w.Mode != vote.Permit || w.Permits > 0 && w.Permits <= vote.MaxPermits)
}

// settleClash rejects the upgrades of a key but the oldest: each upgrade waits for the shared
// leases of the other upgrades, so the upgrades would wait without end. Upgrades of the same shared
// request as the oldest aren't rejected: they hold no other lease, and get the key one after
// another.
func (l *sessionLayer) settleClash(k *key) {
	l.spendScan(k)
	lists := k.lists()
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
	l.spendScan(k)
	for _, all := range lists {
		for _, e := range all {
			if e != first && e.clashes() && (e.s.id != first.s.id || e.cold().beside != first.cold().beside) {
				l.push(e.s, vote.KindClash, e.number)
			}
		}
	}
}

// clashes reports whether the entry is an upgrade that waits for leases possibly held by other
// upgrades.
func (e *entry) clashes() bool {
	return e.cold().beside != 0 && !e.held && !e.residual && !e.voteLapsed
}

// freed is what the end of a vote brings to the promises made at once for the key.
type freed struct {
	grace     time.Duration // an extension of the promises' proposal timeouts; see expireResidual
	tokenHint vote.Token    // of the release, for the next request; zero for none. See propose
}

// grantVotes gives votes for a key to the next requests in the queue for which there is room. For a
// request without room, grantVotes asks the owners of the blocking votes whether they need the
// votes. Where many readers wait, a task grants the rest of the votes: see granting.
func (v *Voter) grantVotes(k *key) { v.grantFreed(k, freed{}) }

// grantFreed is grantVotes where a vote for the key has just ended.
func (v *Voter) grantFreed(k *key, by freed) {
	v.freeOfEnded(k, by)
	if k.queue.empty() || !v.counting() {
		return
	}
	var spokenFor slots
	passed := 0
	defer func() { v.spend(1 + passed/scanned) }()
	for i := 0; i < len(k.queue.all()); {
		passed++
		e := k.queue.all()[i]
		if e.mode == vote.Permit {
			passed += len(k.votes.all()) // room looks for a slot
		}
		if !e.canReceive(v.now.Slow) {
			i++
			continue
		}
		back := v.takeBack(e, &spokenFor)
		slot, ok := k.room(e, &spokenFor)
		if ok {
			if !v.promise(e, slot, by) {
				return
			}
			if back {
				// TryLocks ahead of e may have been told of the residual vote, and must now inquire
				// about the new vote, or be told of another lease.
				v.forgetTaken(k)
				v.notifyTaken(k)
				v.spend(passed / scanned)
				i, passed = 0, 0
			}
			if v.spend(1); v.exhausted() {
				v.grantLater(k)
				return
			}
			continue
		}
		v.contend(k, e)
		if e.wantedSlot == 0 || !k.compatibleWithAll(e) {
			return // no request overtakes e
		}
		spokenFor.add(e.wantedSlot) // later requests may have the other slots
		i++
	}
}

// granting is the task of giving votes for a key to the rest of the requests for which there is
// room. Until then they wait, as if their requests came later.
type granting struct{ k *key }

// grantLater leaves the rest of a key's queue to a task.
func (l *sessionLayer) grantLater(k *key) {
	if !k.granting && !k.queue.empty() {
		k.granting = true
		l.postpone(&granting{k})
	}
}

func (t *granting) run(v *Voter) (done bool) {
	// The key may have been forgotten meanwhile, and the struct have another name: granting
	// once more does no harm.
	t.k.granting = false
	v.grantVotes(t.k)
	return true // the rest has another task
}

// promise gives a vote for the key to an entry of the queue, unless the vote would break an
// invariant, and reports whether the entry has the vote.
func (l *voteLayer) promise(e *entry, slot vote.Slot, by freed) bool {
	k := e.key
	if !l.fit(e, slot) {
		return false
	}
	l.dequeue(e)
	e.serial, e.slot, e.wantedSlot = l.votes.nextSerial(), slot, 0
	l.votedAt(e, l.now.Slow)
	e.inquired, e.asked = false, askedNothing
	if e.coldFields != nil || by.grace != 0 {
		x := l.spares.coldFor(e)
		x.until, x.unextended, x.timed, x.grace = 0, 0, 0, by.grace
		l.awaitExtension(e)
	}
	if !e.held {
		e.token, e.tokenChanged = l.propose(k, max(e.tokenHint, by.tokenHint)), false
	}
	l.raise(k, e.token)
	k.votes.add(e)
	if e.try {
		k.voted++
	}
	e.s.digest = e.s.digest.Plus(vote.DigestOfVote(e.serial))
	l.count.Promises++
	if e.s.isReachable() && (k.isWanted() || e.mode == vote.Exclusive && l.isWatched(k.name)) {
		e.asked = askedContended
	}
	l.sendPromise(e)
	if e.held {
		l.notifyTaken(k)
	}
	return true
}

// sendPromise notifies an entry's owner of the entry's vote.
func (l *sessionLayer) sendPromise(e *entry) {
	m := l.push(e.s, vote.KindPromise, e.number)
	m.Serial, m.Slot, m.Token, m.Revoke, m.Epoch = e.serial, e.slot, e.token, e.asked == askedContended, l.electorate.Version
}

// fit checks the invariants of a promise. If the promise would break an invariant, fit records the
// violation and returns false.
func (l *voteLayer) fit(e *entry, slot vote.Slot) bool {
	k := e.key
	f := k.excluding(e)
	if f == nil && slot != 0 {
		f = k.inSlot(slot)
	}
	switch {
	case f != nil:
		l.violated("key %q is promised to %v and to %v at once", k.name, f.s.id, e.s.id)
	case !l.counting():
		l.violated("key %q is promised while quiet", k.name)
	case e.s.deadline <= l.now.Slow:
		l.violated("key %q is promised to session %v, which has ended", k.name, e.s.id)
	case max(k.highest, l.tokens.min) >= vote.MaxToken-vote.BlockSize:
		l.violated("the tokens of key %q have run out", k.name)
	default:
		return true
	}
	return false
}

// unvote takes back the vote of an entry.
func (l *sessionLayer) unvote(e *entry) {
	k := e.key
	if !e.residual {
		e.s.digest = e.s.digest.Minus(vote.DigestOfVote(e.serial))
	}
	k.votes.remove(e)
	if k.votes.empty() {
		k.forgetEndedShared()
	} else if e.mode != vote.Exclusive {
		k.noteEndedShared(e.token)
	}
	e.voteless()
}

// confirm applies the token on which a request's tally has settled. With Won, the vote belongs to a
// lease, and moves only on a message from its owner.
func (v *Voter) confirm(s *session, m *vote.Message) {
	e := s.entries.m[m.Number]
	if e == nil || m.Token == 0 {
		return
	}
	k := e.key
	if !v.takes(s, m.Token, k.name) {
		if m.Won && !v.quiet.over && e.serial == 0 { // an existing vote keeps its own token
			v.dequeue(e)
			e.leaseSlot, e.wantedSlot = useful(m.Slot, e.permits), useful(m.Slot, e.permits)
			e.holdUnchecked(v.now.Slow, m.Token)
			k.insert(e)
		}
		return
	}
	if m.Won {
		e.leaseSlot = useful(m.Slot, e.permits)
	}
	switch {
	case e.serial != 0 && e.serial == m.Serial:
	case !m.Won:
		return // a late message about a vote that was given back
	case e.serial == 0:
		// The request has won without this voter's vote, and wants the vote as well, so that the
		// lease's validity doesn't erode.
		v.dequeue(e)
		e.token, e.wantedSlot = m.Token, useful(m.Slot, e.permits)
		v.wins(e)
		k.insert(e)
		v.raise(k, m.Token)
		v.schedule(k)
		return
	default:
		// The report of the win crossed a promise of this voter. If the promise has another token
		// or slot, the requester will say so when the promise arrives.
		if m.Token == e.token && m.Slot == e.slot {
			v.wins(e)
			v.notifyTaken(k)
			v.grantVotes(k)
		} else if !e.held {
			v.reportWin(e, m)
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
		e.tokenChanged = true
		v.confirmed(e)
	}
	if m.Won && !e.held {
		v.wins(e)
		v.notifyTaken(k)
		// The holder may have to be told that a request waits, and the owner of a request that
		// waits for the slot learns that a lease has the slot.
		v.grantVotes(k)
		v.forwardRevoke(e)
	}
}

// confirmed reports to an entry's owner the present token of the entry's vote.
func (l *sessionLayer) confirmed(e *entry) {
	m := l.push(e.s, vote.KindConfirmed, e.number)
	m.Serial, m.Token = e.serial, e.token
}

// wins records the report of an entry's owner that the request has won, and goes on if it has
// lapsed here.
func (v *Voter) wins(e *entry) {
	if e.held && !e.voteLapsed {
		return
	}
	if !e.held {
		e.hold(v.now.Slow)
	}
	e.voteLapsed = false
	v.report(vote.Holding, e)
}

// schedule grants votes for a key and tells TryLocks which leases keep them from the key; then
// schedule grants votes to the requests queued behind a TryLock that was told.
func (v *Voter) schedule(k *key) { v.scheduleFreed(k, freed{}) }

// scheduleFreed is schedule where a vote for the key has just ended.
func (v *Voter) scheduleFreed(k *key, by freed) {
	v.grantFreed(k, by)
	if v.notifyTaken(k) {
		v.grantFreed(k, by)
	}
}

// scheduleRequest is schedule where only one request has changed: it has come to wait, or its
// session has become ready.
func (v *Voter) scheduleRequest(e *entry) {
	v.grantVotes(e.key)
	if v.notifyWaiting(e) {
		v.grantVotes(e.key)
	}
}

// yield takes back the vote of a request that hasn't won, or has won another slot, and queues the
// request again under its old stamp.
func (v *Voter) yield(s *session, m *vote.Message) {
	e := s.entries.m[m.Number]
	if e == nil || e.serial == 0 || e.serial != m.Serial {
		return
	}
	v.count.Yields++
	was := e.held
	v.requeue(e, m.Slot)
	if was {
		v.schedule(e.key)
	} else {
		v.scheduleRequest(e)
	}
}

// requeue takes back the vote of an entry, and puts the entry back into the queue. A request that
// has not won within the proposal timeout of its vote is demoted.
func (v *Voter) requeue(e *entry, wanted vote.Slot) {
	k := e.key
	over := v.now.Slow >= e.term()
	if e.held {
		v.lapsed() // the lease goes on, in another slot
	}
	v.unvote(e)
	e.wantedSlot = useful(wanted, e.permits)
	if e.wantedSlot == 0 {
		e.held = false
	}
	if over && !e.held && e.wantedSlot == 0 {
		v.demote(e)
	}
	k.insert(e)
	if e.wantedSlot == 0 {
		v.reportWait(e)
	}
}

// share turns an exclusive lease into a shared lease, at the owner's request, and lets other
// requests share the key.
func (v *Voter) share(s *session, m *vote.Message) {
	if e := s.entries.m[m.Number]; e != nil && e.mode == vote.Exclusive {
		e.mode = vote.Shared
		if e.held {
			v.report(vote.Changed, e)
		}
		v.forgetTaken(e.key)
		v.schedule(e.key)
	}
}

// release ends a request. A release can't touch the vote of another session: the message names a
// request of the sender's session.
func (v *Voter) release(s *session, m *vote.Message) {
	if e := s.entries.m[m.Number]; e != nil {
		if x := e.coldFields; x != nil && m.Lost {
			x.until = 0 // the lease has ended at its owner, so its length no longer blocks the key
		}
		v.drop(e, m.Lost, m.TokenHint)
	}
	v.push(s, vote.KindReleased, m.Number)
}

// drop removes an entry, with its vote if there is one, and schedules the key for the next request;
// the caller must not use the entry afterwards. The parameter lapsed means that the owner didn't
// give the request back. Then, or if the lease was won too short a time ago (minimum hold), the
// vote may have to stand for a while. The hint is for the next request; see propose.
func (v *Voter) drop(e *entry, lapsed bool, hint vote.Token) {
	k := e.key
	over := true
	until := v.stays(e, lapsed)
	v.reportEnd(e, lapsed)
	// A request without a lease keeps no TryLock from the key, unless it bars readers.
	kept := e.held || e.mode != vote.Shared && k.answered != nil && k.answered.barred > 0
	switch {
	case e.serial == 0:
		v.dequeue(e)
	case until > v.now.Slow:
		v.leaveResidual(e, until, lapsed)
		over, kept = false, true
	default:
		v.unvote(e)
	}
	if over && e.held && e.mode == vote.Exclusive {
		k.over = max(k.over, e.token)
	}
	v.depart(e)
	if kept {
		v.forgetTaken(k)
		v.scheduleFreed(k, freed{tokenHint: hint})
	} else {
		v.grantFreed(k, freed{tokenHint: hint})
	}
	if k.idleNow() {
		v.forgetLater(k)
	}
	v.spares.discard(e)
}
