package lease

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// receipts is a voter's knowledge of whether the owner of a session receives the voter's answers.
//
// An answer or an acknowledgement that extends the session binds the voter as soon as it is sent,
// since the owner may receive it. A lost extension would keep the owner's keys from other
// requesters for longer than the owner itself can use the keys; a process that sends messages but
// receives none would keep its keys without end. So each refresh and each open message names the
// newest answer that the sender has received, and may declare later answers void; the sender then
// ignores the void answers even if they arrive after all. The session's deadline goes back to the
// instant on which the owner can still count.
//
// The voter never shortens a session below the owner's expectation: the owner counts on answers
// already received, and on answers not yet declared void, and the voter takes back an extension
// only on a declaration that covers the extension. Refreshes of one stream arrive in the order in
// which they were sent.
type receipts struct {
	open bool // the newest extension isn't known to be received; if false, the next two are zero
	// first is when the earliest message with an extension not known to be received was sent, on
	// the owner's clock.
	first             vote.Instant
	confirmedDeadline vote.Instant // the session's deadline without the extensions from first on
	// answerLost: the owner has opened the stream without having received the answer to its
	// previous sync. The owner gets no votes until a refresh shows that the owner receives answers:
	// otherwise the owner would take a key from waiting requests anew in each TTL, for as long as
	// the one-way cut lasts.
	answerLost bool
}

// readReceipt reads from a refresh or an open message which of this voter's answers the sender has
// received. If void is set, the sender ignores all later answers, and the session's deadline goes
// back to its value without their extensions. readReceipt reports whether the session may be
// extended. A sender that reports nothing is assumed to receive answers.
func (l *sessionLayer) readReceipt(s *session, m *vote.Message, void bool) (extends bool) {
	h := &s.receipts
	says := m.Heard != 0 || m.Void
	if !says || m.Heard >= h.first {
		// The owner may have received none of the extensions after the first; the voter then keeps
		// the owner's keys a little longer than necessary.
		h.open, h.first, h.confirmedDeadline = false, 0, 0
	}
	if !says || !void {
		return true
	}
	if h.open {
		l.count.Voided++
		s.deadline = h.confirmedDeadline
		h.open, h.first, h.confirmedDeadline = false, 0, 0
		l.sessions.rescan()
		l.at(s.deadline)
	}
	return false
}

// extendSession moves a session's deadline to a TTL from now.
func (l *sessionLayer) extendSession(s *session) { s.deadline = max(s.deadline, l.now.Slow.Add(s.ttl)) }

// extendBy extends a session by the acknowledgement of a refresh, which may be declared void later.
func (l *sessionLayer) extendBy(s *session, m *vote.Message) {
	if h := &s.receipts; !h.open && m.Heard != 0 {
		h.open, h.first, h.confirmedDeadline = true, m.Sent, s.deadline
	}
	l.extendSession(s)
}

// answerReceived records that a session's owner has received the answer to its sync, and schedules
// the keys of the session's waiting requests.
func (v *Voter) answerReceived(s *session) {
	if !s.receipts.answerLost {
		return
	}
	s.receipts.answerLost = false
	v.startTask(&scheduling{s, len(s.all)})
}

// scheduling is the task of scheduling the keys for which requests of a session wait: the session's
// owner receives answers again, or the voter's votes count now.
//
// The scan goes from the last request to the first, since the last request moves into the place of
// a request that ends. Requests that arrive in the meantime are scheduled on arrival.
type scheduling struct {
	s    *session
	left int // how many requests at the start of s.all are left
}

func (t *scheduling) run(v *Voter) (done bool) {
	for !t.s.leaves() {
		if t.left = min(t.left, len(t.s.all)); t.left == 0 {
			break
		}
		if v.exhausted() {
			return false
		}
		v.spend(1)
		t.left--
		if e := t.s.all[t.left]; e.serial == 0 {
			v.scheduleRequest(e)
		}
	}
	return true
}

// voteUnreceived reports whether a sync shows that the sender doesn't count the vote of an entry,
// although the vote's proposal timeout is over and other requests wait for the key. The vote is
// then as good as yielded: messages about the vote on the earlier stream are void, and the answer
// to the sync, which would report the vote again, has not been sent.
func (l *sessionLayer) voteUnreceived(e *entry, st *vote.Entry) bool {
	if e.serial == 0 || e.held || st.Token != 0 || st.Serial == e.serial || l.now.Slow < e.term() {
		return false
	}
	return slices.ContainsFunc(e.key.queue.all(), func(w *entry) bool { return w.canReceive(l.now.Slow) })
}
