package quorum

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// receipts is the state from which a requester tells a voter about the answers received, so that
// the voter keeps keys no longer than this node can use them. See the voter's side in
// lease/receipts.go. The receipts belong to one incarnation of the voter.
type receipts struct {
	newest        vote.Instant // when the newest answered message was sent; zero for none
	awaitingSince vote.Instant // since when an answer is awaited; zero while none is
	// Messages sent on this stream until then extend nothing, whatever the answers say; zero for
	// none.
	void       vote.Instant
	unanswered bool // the newest sync hasn't been answered
	// Nor was the sync before: the voter gives no vote until a refresh shows receipt of an answer.
	answerLost bool
}

// fillOpen fills in the opening of a stream. From now on the answers still missing from the earlier
// stream are void.
func (r *receipts) fillOpen(m *vote.Message) {
	m.Heard, m.Void = r.newest, r.unanswered
	r.awaitingSince, r.void, r.answerLost, r.unanswered = 0, 0, r.unanswered, true
}

// syncAnswered takes in the answer to a sync, and reports whether the voter waits for a refresh
// before extending the session or giving votes.
func (r *receipts) syncAnswered(m *vote.Message) (waits bool) {
	r.newest, r.awaitingSince = m.Sent, 0
	return m.Void || r.answerLost
}

// fillRefresh fills in a refresh. A refresh that finds an answer late declares the answer void.
func (r *receipts) fillRefresh(m *vote.Message, now vote.Instant, late time.Duration) {
	m.Heard = r.newest
	if r.awaitingSince != 0 && now >= r.awaitingSince.Add(late) {
		m.Void, r.void = true, now
	}
	if r.awaitingSince == 0 {
		r.awaitingSince = now
	}
}

// ackReceived takes in an acknowledgement, and reports whether to refresh the voter at once: the
// acknowledgement is the first since others were declared void.
func (r *receipts) ackReceived(m *vote.Message, refreshed, now vote.Instant) (again bool) {
	r.newest = max(r.newest, m.Sent)
	if r.awaitingSince = 0; m.Sent < refreshed {
		r.awaitingSince = now // a later acknowledgement is under way
	}
	return r.void != 0 && refreshed <= r.void
}

// counts reports whether an answer extends the session.
func (r *receipts) counts(m *vote.Message) bool { return !m.Void && (r.void == 0 || m.Sent > r.void) }

// sendFinalRefresh sends the last message on a stream before a silent voter's stream is closed: the
// voter may still receive this node's messages.
func (l *sessionLayer) sendFinalRefresh(p *peer) {
	if p.answered && p.receipts.awaitingSince != 0 {
		p.receipts.awaitingSince = min(p.receipts.awaitingSince, l.now.Fast.Add(-l.answerTimeout(p)))
		l.refresh(p)
	}
}
