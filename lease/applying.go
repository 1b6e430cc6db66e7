package lease

import (
	"github.com/lockmesh/lockmesh/internal/vote"
)

// maxLater bounds how many messages of a session wait while the session's sync is applied. The
// voter closes the connection of a node that sends more messages in the meantime; the node then
// resyncs. Applying a million entries takes about a second, and a node that asks for ten thousand
// locks in that second gets them.
const maxLater = 16384

// applying is the task of applying a session's sync ([vote.KindSync]): the
// voter updates its record of the session to match the sync, and answers with the session's votes.
//
// Requests missing in the sync are dropped. A vote that the sync calls yielded is taken back, and
// the request is queued again: the yield message was lost when the stream broke. A lease that the
// holder lists and the voter doesn't know is recorded at the front of the queue, under the lease's
// own token; while the voter is quiet, the lease stays in the queue.
//
// A long sync is applied in several steps. Entries that no step has reached yet are treated as if
// the sync were still on its way. Every rule of the voter must cope with a late sync anyway, since
// the requester counts no vote of a voter before the end of the voter's answer. Messages from the
// voter to the session would be void before the end of the answer, so the voter doesn't send any;
// changes that come too late for the answer are sent after the answer. Messages from the session
// wait in later.
type applying struct {
	s      *session
	phase  applyPhase
	next   int // the position within the phase
	listed []vote.Entry
	// last has the index of each request's last entry in listed; only the last entry counts.
	last map[vote.Number]int

	residuals []vote.Number // requests with residual votes
	refused   []refusal
	inAnswer  []vote.Serial // by index in listed: the vote listed in the answer
	chunk     []vote.Entry
	upTo      vote.Serial // the voter's newest serial at the end of the answer

	later []vote.Message
}

// applyPhase is the progress of an [applying]. The phases follow each other in this order.
type applyPhase uint8

const (
	applyIndexes   applyPhase = iota // finds requests listed twice
	applyDrops                       // drops requests missing in the sync
	applyListed                      // enters or updates the listed requests
	applyUnlisted                    // ends residual votes with a length, if missing in the sync
	applyAnswers                     // lists the session's votes in the answer, up to the end mark
	applyRefuses                     // reports the requests that were not accepted
	applyNotifies                    // reports changes during the answer
	applyCatchesUp                   // processes the messages in later
	applied
)

// apply begins to apply the session's sync, which is complete.
func (v *Voter) apply(s *session) {
	if v.quiet.broken {
		s.moveTo(streamVoid)
		return
	}
	v.count.Restated++
	t := &applying{s: s, listed: s.listed, last: make(map[vote.Number]int, len(s.listed))}
	s.moveTo(streamApplying)
	s.listed, s.applying = nil, t
	if s.extends {
		v.extendSession(s)
	}
	v.sessions.rescan()
	v.startTask(t)
}

// isSilent reports whether the voter sends the session no messages yet: before the end of the
// answer, messages would be void or sent twice.
func (t *applying) isSilent() bool { return t.phase <= applyAnswers }

// isUnder reports whether results of the sync are still unsent, so that the digests of voter and
// requester differ.
func (t *applying) isUnder() bool { return t.phase < applyCatchesUp }

// keep makes a message of the session wait until the session's sync is applied.
func (t *applying) keep(v *Voter, m *vote.Message) {
	if len(t.later) >= maxLater {
		v.closeConn(t.s.conn)
		v.unlink(t.s)
		return
	}
	t.later = append(t.later, *m)
}

// run continues the task. The task is also done when the session has ended or has begun another
// stream.
func (t *applying) run(v *Voter) (done bool) {
	for t.s.applying == t && t.phase != applied && !v.quiet.broken {
		if v.exhausted() {
			return false
		}
		v.spend(1)
		t.step(v)
	}
	switch {
	case t.s.applying != t:
	case v.quiet.broken: // a broken voter makes no more promises, and so doesn't answer
		t.s.moveTo(streamVoid)
	default:
		t.s.moveTo(streamReady)
	}
	return true
}

// step performs a unit of work of the phase, or begins the next phase.
func (t *applying) step(v *Voter) {
	i := t.next
	t.next++
	switch {
	case t.phase == applyIndexes && i < len(t.listed):
		t.last[t.listed[i].Number] = i
	case t.phase == applyDrops && t.drops(v):
	case t.phase == applyListed && i < len(t.listed):
		t.enterListed(v, i)
	case t.phase == applyUnlisted && i < len(t.residuals):
		v.unlisted(t.s, t.residuals[i])
	case t.phase == applyAnswers && i < len(t.listed):
		t.answers(v, i)
	case t.phase == applyRefuses && i < len(t.refused):
		v.sendRejection(t.s, &t.refused[i])
	case t.phase == applyNotifies && i < len(t.listed):
		t.notifies(v, i)
	case t.phase == applyCatchesUp && i < len(t.later):
		v.obey(t.s, &t.later[i])
		t.later[i] = vote.Message{}
	default:
		t.nextPhase(v)
	}
}

// nextPhase ends a phase and begins the next phase.
func (t *applying) nextPhase(v *Voter) {
	switch s := t.s; t.phase {
	case applyListed:
		for _, g := range v.votes.residuals.of(s.id) {
			t.residuals = append(t.residuals, g.number)
		}
		v.spend(len(t.residuals) / scanned)
	case applyUnlisted:
		t.inAnswer = make([]vote.Serial, len(t.listed))
	case applyAnswers:
		v.answer(s, t.chunk)
		t.chunk, t.upTo = nil, v.votes.serial
	}
	t.phase++
	t.next = 0
}

// entry returns the voter's entry for the request at index i of listed; nil if there is none, or if
// the request is listed again later.
func (t *applying) entry(i int) *entry {
	n := t.listed[i].Number
	if t.last[n] != i {
		return nil
	}
	return t.s.entries.m[n]
}

// drops examines the next request of the session, and drops the request if the sync doesn't list it
// under the same key. The scan goes from the last request to the first, since the last request
// moves into the place of a dropped request.
func (t *applying) drops(v *Voter) (more bool) {
	all := t.s.all
	at := len(all) - t.next
	if at < 0 {
		return false
	}
	e := all[at]
	if i, ok := t.last[e.number]; !ok || t.listed[i].Key != e.key.name {
		v.drop(e, true, 0)
		t.next-- // the list is shorter now
	}
	return true
}

// enterListed enters a listed request, or updates the entry of a known request.
func (t *applying) enterListed(v *Voter, i int) {
	st := &t.listed[i]
	if t.last[st.Number] != i {
		return
	}
	e := t.s.entries.m[st.Number]
	if e == nil {
		var r refusal
		if e, r = v.enter(t.s, st); e == nil {
			t.refused = append(t.refused, r)
			return
		}
	} else {
		was, serial := e.mode, e.serial
		v.updateListed(e, st)
		if was == vote.Shared && serial != 0 && e.serial == serial {
			return // a vote among perhaps thousands that stays as it was changes nothing for its key
		}
	}
	v.grantVotes(e.key)
}

// answers adds the vote of a listed request to the answer.
func (t *applying) answers(v *Voter, i int) {
	e := t.entry(i)
	if e == nil || e.serial == 0 {
		return
	}
	t.inAnswer[i] = e.serial
	if len(t.chunk) == vote.MaxEntries {
		m := v.send(t.s.conn, vote.KindAnswer)
		m.Stream, m.Entries = t.s.stream, t.chunk
		t.chunk = nil
	}
	t.chunk = append(t.chunk, vote.Entry{Number: e.number, Serial: e.serial, Slot: e.slot, Token: e.token})
}

// notifies sends the state of a request beyond its vote, and also the vote if the vote was given
// after the answer had passed the request.
func (t *applying) notifies(v *Voter, i int) {
	e := t.entry(i)
	if e == nil {
		return
	}
	if e.serial != t.inAnswer[i] && e.serial <= t.upTo {
		v.sendPromise(e)
	}
	switch {
	case e.mode == vote.Shared && e.serial != 0:
		v.scheduleReader(e)
	case e.held:
		v.schedule(e.key)
	default:
		v.scheduleRequest(e)
	}
	if e.held && e.serial != 0 {
		v.forwardRevoke(e)
	}
	if e.cold().beside != 0 {
		v.settleClash(e.key)
	}
	v.reportWait(e)
}

// scheduleReader is schedule for a reader with a vote, to whose owner the voter may send messages
// again: the owner is asked for the vote, or told that another request waits. The key may have
// thousands of other readers, and nothing has changed for them.
func (v *Voter) scheduleReader(e *entry) {
	k := e.key
	v.spend(len(k.queue.all()) / scanned)
	if w := k.next(v.now.Slow); w != nil && !w.compatible(e) {
		v.inquireOrNotify(e, w)
	}
	if e.held && v.notifyTaken(k) {
		v.grantVotes(k)
	}
}

// answer ends the answer to a sync with the last of the session's votes.
func (l *sessionLayer) answer(s *session, votes []vote.Entry) {
	m := l.send(s.conn, vote.KindAnswer)
	m.Stream, m.Entries = s.stream, votes
	m.End, m.Sent, m.Incarnation, m.Generation = true, s.syncSent, l.cfg.Self.Incarnation, s.gen
	m.Quiet, m.Wall = l.Quiet(), l.now.Wall
	s.sentCounting = m.Quiet == 0
	l.extendByAnswer(s)
	m.Epoch, m.Dir, m.Void = l.electorate.Version, l.cfg.Dir, !s.extends
}

// extendByAnswer extends a session by the end of the answer to its sync. The owner takes the
// session for extended by what is granted under the version in the answer, which may be more than
// what was granted when the sync was complete.
func (l *sessionLayer) extendByAnswer(s *session) {
	if s.extends {
		l.extendSession(s)
	}
}

// stateAnew makes the sessions resync that are receiving an answer while tokens of votes change:
// the answer may have listed a vote with the old token.
func (l *sessionLayer) stateAnew() {
	for _, s := range l.sessions.listed {
		if s.phase == streamApplying && s.applying.isSilent() {
			s.moveTo(streamVoid)
			l.unknown(s.conn, s.stream)
		}
	}
}
