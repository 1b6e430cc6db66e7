package quorum

import (
	"fmt"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Link reports a new connection to a voter. The session's sync is sent at once.
func (q *Requester) Link(now vote.Now, conn vote.Conn, voter vote.SessionID) {
	q.begin(now)
	p := q.peerOf(voter.Node)
	if p == nil {
		q.closes(conn)
		return
	}
	if p.up() && p.conn != conn {
		q.closes(p.conn)
	}
	if p.incarnation != voter.Incarnation {
		// Serials of an incarnation say nothing about another incarnation: see list.
		p.reborn = true
		// Nor do generations: zero is none, so the answer resets the validity.
		p.incarnation, p.gen, p.receipts = voter.Incarnation, 0, receipts{}
		p.suspect.top = 0 // nor do the tokens known to the earlier incarnation
	}
	p.link, p.conn, p.lastReceived, p.text = linkUp, conn, q.now.Fast, ""
	q.resync(p)
}

// Unlink reports a closed connection. The votes hold as long as their session is valid.
func (q *Requester) Unlink(now vote.Now, conn vote.Conn) {
	q.begin(now)
	for _, p := range q.peers {
		if p.up() && p.conn == conn {
			p.forgetSync()
			p.link, p.answered, p.refreshAt = linkConnecting, false, vote.Never
			q.evaluatePending()
		}
	}
}

// DialFailed reports that a voter can't be reached for now. A voter in refusal still counts as
// refusing: the refusal is its newest message.
func (q *Requester) DialFailed(now vote.Now, voter vote.NodeID, text string) {
	q.begin(now)
	if p := q.peerOf(voter); p != nil && !p.up() {
		p.link, p.text = linkUnreachable, text
		q.evaluatePending()
	}
}

// Refused reports a refusal in a voter's handshake; with ReasonNone, the end of the refusal.
func (q *Requester) Refused(now vote.Now, voter vote.NodeID, reason vote.Reason, text string) {
	q.begin(now)
	if p := q.peerOf(voter); p != nil && !p.up() {
		p.refused, p.text = reason, text
		if reason == vote.ReasonNone {
			p.link = linkConnecting
		}
		q.evaluatePending()
	}
}

// forgetSync gives up the sync of the stream, and the answer, as far as they have got.
func (p *peer) forgetSync() {
	p.syncBuilder, p.answerReader, p.ahead, p.syncAnswer = nil, nil, nil, listing{}
}

// hangUp closes the stream to a voter; the owner of the connections will dial again.
func (q *Requester) hangUp(p *peer, text string) {
	q.closes(p.conn)
	p.forgetSync()
	p.link, p.answered, p.refreshAt, p.text = linkConnecting, false, vote.Never, text
	q.evaluatePending()
}

// resync begins a new stream with a sync: a list of everything the session wants and holds at the
// voter. A long sync is made in pieces.
func (l *requestLayer) resync(p *peer) {
	l.count.Resyncs++
	p.stream++
	p.forgetSync()
	p.answered, p.earlyAcks, p.refreshAt = false, nil, vote.Never
	p.sent, p.received = 0, 0
	p.digest.reset()
	p.syncSent, p.refreshed = l.now.Fast, l.now.Fast
	p.acked, p.ackMark = 0, ackMark{}
	p.notVoterYet = false
	open := vote.Message{Kind: vote.KindOpen, Stream: p.stream, TTL: l.cfg.TTL, RTT: l.trip(), Sent: l.now.Fast, Epoch: l.newest.version}
	if !l.cfg.NoReceipts {
		p.receipts.fillOpen(&open)
	}
	l.urgent(p, &open)
	m := vote.Message{Kind: vote.KindSync, Stream: p.stream}
	if len(l.requests) > l.budget() {
		l.count.MadeInPieces++
		p.syncBuilder = &syncBuilder{pass: l.pass(), ahead: make(map[vote.Number]struct{}), chunk: m}
		return
	}
	l.spend(costStated * len(l.requests))
	for r := l.ordered.first; r != nil; r = r.next {
		l.list(p, r, &m)
	}
	m.End, p.reborn = true, false
	l.urgent(p, &m)
}

// Deliver takes in a voter's message from conn.
func (q *Requester) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	q.begin(now)
	p := q.peerAt(conn)
	if p == nil || p.incarnation != from.Incarnation || p.name != from.Node {
		return // from an earlier connection or incarnation
	}
	p.slow = false
	switch m.Kind {
	case vote.KindQueryResult, vote.KindRevokeForwarded:
		q.querier().receiveResult(p, m)
		return
	case vote.KindEvents:
		q.querier().receiveNews(p, m)
		return
	}
	if p.stream != m.Stream {
		return // from an earlier stream
	}
	p.receipts.unanswered = false
	switch m.Kind {
	case vote.KindUnknown:
		// While notVoterYet is set, the message is about the sync behind the refused opening.
		if !p.notVoterYet {
			q.resync(p)
		}
	case vote.KindProbe:
		q.urgent(p, &vote.Message{Kind: vote.KindProbeReply, Stream: p.stream})
	case vote.KindRefused:
		q.receiveRefusal(p, m.Reason)
	case vote.KindAnswer:
		q.receiveAnswer(p, m)
	case vote.KindAck:
		if p.answered {
			q.receiveAck(p, m)
		}
	default:
		switch {
		case p.answerReader != nil:
			q.keepLater(p, m)
		case p.answered:
			q.receiveOrdered(p, m)
		}
	}
}

// receiveOrdered takes in an ordered message on a voter's current stream, and the acknowledgements
// that overtook the message.
func (q *Requester) receiveOrdered(p *peer, m *vote.Message) {
	p.received++
	q.receive(p, m)
	for len(p.earlyAcks) > 0 && p.earlyAcks[0].Pushed <= p.received {
		ack := p.earlyAcks[0]
		p.earlyAcks = p.earlyAcks[1:]
		q.settle(p, &ack)
	}
}

// receiveRefusal handles a voter's refusal of this node's session.
func (q *Requester) receiveRefusal(p *peer, reason vote.Reason) {
	if reason == vote.ReasonNotVoter && q.cfg.Dynamic {
		// The voter doesn't know yet of its own vote, or knows a newer electorate; either way
		// electorates are being exchanged. See Requester.AckEpoch.
		p.forgetSync()
		p.answered, p.refreshAt, p.notVoterYet, p.lastReceived = false, vote.Never, true, q.now.Fast
		q.evaluatePending()
		return
	}
	p.refused = reason
	if reason == vote.ReasonDeposed {
		q.revoked(p)
	}
	if reason == vote.ReasonNameTaken {
		q.nameTaken = true
		if q.cfg.Self.Node != p.name && !p.nameAlarmed {
			p.nameAlarmed = true
			q.Alarm(fmt.Sprintf(
				"%s refuses this process: another live process is called %q too; give one of them another name", p.name, q.cfg.Self.Node))
		}
	}
	q.hangUp(p, reason.String())
}

// receiveAck takes in the answer to a refresh. An acknowledgement that overtook the messages it
// counts waits for them, but shows at once that the voter is alive.
func (q *Requester) receiveAck(p *peer, m *vote.Message) {
	if m.Sent < p.syncSent || m.Sent > p.refreshed {
		return // no refresh sent on this stream
	}
	p.lastReceived = q.now.Fast
	p.ackEpoch = m.Epoch
	if !q.cfg.NoReceipts && p.receipts.ackReceived(m, p.refreshed, q.now.Fast) {
		// Not in the instant in which answers were declared void: otherwise the refresh would be
		// void as well, and so on without end where messages take no time.
		p.refreshAt = min(p.refreshAt, max(q.now.Fast, p.receipts.void+1))
	}
	if m.Incarnation == p.incarnation {
		q.checkDrift(p, m)
	}
	switch {
	case m.Pushed <= p.received && len(p.earlyAcks) == 0:
		q.settle(p, m)
	case len(p.earlyAcks) < maxEarlyAcks:
		p.earlyAcks = append(p.earlyAcks, *m)
	}
}

// settle extends the session by an acknowledgement, but only if both sides agree on the digest.
func (q *Requester) settle(p *peer, m *vote.Message) {
	if m.Incarnation != p.incarnation || m.Generation != p.gen || p.digest.settle(m.Processed, m.Pushed) != (vote.Digest{Count: m.Count, Hash: m.Hash}) {
		q.count.Mismatches++
		q.resync(p)
		return
	}
	q.deliverer().reachMark(p, m)
	q.renew(p, m)
	was := p.counting
	q.setQuiet(p, m)
	q.renewals.begin()
	q.updateValidity()
	q.reportRenewal(p, m.Sent, q.ttl())
	if was != p.counting {
		q.evaluatePending()
		if p.counting {
			q.querier().resendQueries(p) // answers given while quiet didn't count
		}
	}
}

// QueryTokens asks every reachable voter for its highest known token, on behalf of this node's own
// voter.
func (q *Requester) QueryTokens(now vote.Now, nonce uint64) {
	q.begin(now)
	for _, p := range q.peers {
		if p.up() && p.name != q.cfg.Self.Node {
			q.urgent(p, &vote.Message{Kind: vote.KindTokenQuery, Nonce: nonce})
		}
	}
}
