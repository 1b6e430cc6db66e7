package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

func (q *Requester) peerOf(name vote.NodeID) *peer {
	i, ok := slices.BinarySearchFunc(q.peers, name, func(p *peer, name vote.NodeID) int { return cmp.Compare(p.name, name) })
	if !ok {
		return nil
	}
	return q.peers[i]
}

// peerAt returns the voter at the other end of a connection. There are few voters, and comparing
// numbers is faster than looking up names.
func (q *Requester) peerAt(conn vote.Conn) *peer {
	for _, p := range q.peers {
		if p.conn == conn && p.up() {
			return p
		}
	}
	return nil
}

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
		// Serials of an incarnation say nothing about another incarnation.
		q.toil(len(q.requests) / scanned)
		for _, r := range q.requests {
			if x := r.coldOf(p.place); x != nil {
				x.yielded, x.noted, x.revokes, x.barred = 0, 0, 0, nil
			}
		}
		// Nor do generations: zero is none, so the answer resets the cover.
		p.incarnation, p.gen, p.receipts = voter.Incarnation, 0, receipts{}
		p.suspect.top = 0 // nor do the tokens known to the earlier incarnation
	}
	p.link, p.conn, p.lastReceived, p.text = linkUp, conn, q.now.Fast, ""
	q.resync(p)
}

// Unlink reports a closed connection. The votes hold as long as their session is covered.
func (q *Requester) Unlink(now vote.Now, conn vote.Conn) {
	q.begin(now)
	for _, p := range q.peers {
		if p.up() && p.conn == conn {
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

// hangUp closes the stream to a voter; the owner of the connections will dial again.
func (q *Requester) hangUp(p *peer, text string) {
	q.closes(p.conn)
	p.link, p.answered, p.refreshAt, p.text = linkConnecting, false, vote.Never, text
	q.evaluatePending()
}

// resync begins a new stream with a sync: a list of everything the session wants and holds at the
// voter.
func (q *Requester) resync(p *peer) {
	q.count.Resyncs++
	p.stream++
	p.answered, p.earlyAcks, p.syncAnswer, p.refreshAt = false, nil, nil, vote.Never
	p.sent, p.received = 0, 0
	p.digest.reset()
	p.syncSent, p.refreshed = q.now.Fast, q.now.Fast
	p.acked, p.mark = 0, mark{}
	p.notVoterYet = false
	open := vote.Message{Kind: vote.KindOpen, Stream: p.stream, TTL: q.cfg.TTL, RTT: q.trip(), Sent: q.now.Fast, Epoch: q.newest.version}
	if !q.cfg.NoReceipts {
		p.receipts.fillOpen(&open)
	}
	q.urgent(p, &open)
	m := vote.Message{Kind: vote.KindSync, Stream: p.stream}
	all := q.sorted(nil)
	q.toil(costStated * len(all))
	for i, r := range all {
		if r.state == stateEnding || r.queued {
			continue
		}
		v := &r.votes[p.place]
		if !q.newest.Committee(r.key).Has(p.place) {
			v.sent = false // the voter drops unlisted requests
			continue
		}
		// The voter may have confirmed the requested token, so v.asking stays.
		v.sent, v.busy, v.unfit, v.released = true, false, 0, false
		if x := r.coldOf(p.place); x != nil {
			x.taken, x.extending = 0, false
		}
		p.digest.base = p.digest.base.Plus(vote.DigestOfRequest(r.number))
		if len(m.Entries) == vote.MaxEntries {
			q.urgent(p, &m)
			m.Entries = nil
		}
		if m.Entries == nil {
			m.Entries = make([]vote.Entry, 0, min(vote.MaxEntries, len(all)-i))
		}
		slot := r.slot
		if slot == 0 {
			slot = r.want(p.place)
		}
		m.Entries = append(m.Entries, vote.Entry{
			Spec: r.spec(q.now.Fast), Number: r.number, Time: r.time, Bid: r.bid, Serial: v.serial, Yielded: r.yielded(p.place), Slot: slot, Token: r.token,
		})
	}
	m.End = true
	q.urgent(p, &m)
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
	case vote.KindShow, vote.KindPassed:
		q.receiveResult(p, m)
		return
	case vote.KindNews:
		q.receiveNews(p, m)
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
		q.urgent(p, &vote.Message{Kind: vote.KindAlive, Stream: p.stream})
	case vote.KindRefused:
		q.receiveRefusal(p, m.Reason)
	case vote.KindAnswer:
		q.receiveAnswer(p, m)
	case vote.KindAck:
		if p.answered {
			q.receiveAck(p, m)
		}
	default:
		if p.answered {
			p.received++
			q.receive(p, m)
			for len(p.earlyAcks) > 0 && p.earlyAcks[0].Pushed <= p.received {
				ack := p.earlyAcks[0]
				p.earlyAcks = p.earlyAcks[1:]
				q.settle(p, &ack)
			}
		}
	}
}

// receiveRefusal handles a voter's refusal of this node's session.
func (q *Requester) receiveRefusal(p *peer, reason vote.Reason) {
	if reason == vote.ReasonNotVoter && q.cfg.Dynamic {
		// The voter doesn't know yet of its own vote, or knows a newer electorate; either way
		// electorates are being exchanged. See Requester.Goes.
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
		if q.cfg.Self.Node != p.name {
			q.Alarm(fmt.Sprintf(
				"%s refuses this process: another live process is called %q too; give one of them another name", p.name, q.cfg.Self.Node))
		}
	}
	q.hangUp(p, reason.String())
}

// receiveAnswer collects the answer to the sync. At its end the listed votes hold, and no others.
func (q *Requester) receiveAnswer(p *peer, m *vote.Message) {
	if p.answered || len(p.syncAnswer)+len(m.Entries) > MaxRequests {
		return
	}
	p.syncAnswer = appendVotes(p.syncAnswer, m.Entries)
	p.lastReceived = q.now.Fast
	if !m.End {
		return
	}
	if m.Dir != p.dir {
		q.hangUp(p, "its state directory isn't the voter's: the directory was wiped or replaced, "+
			"and the node has to be voted in anew")
		return
	}
	if m.Sent != p.syncSent || m.Incarnation != p.incarnation {
		q.hangUp(p, "its answer doesn't match the sync of this node")
		return
	}
	listed := newListing(p.syncAnswer)
	p.syncAnswer = nil
	p.answered, p.refused, p.text, p.ackEpoch = true, vote.ReasonNone, "", m.Epoch
	p.acked = p.syncSent
	if p.gen != m.Generation {
		// A different session: the cover of the old session's votes doesn't extend to the new
		// votes.
		p.gen, p.validity = m.Generation, validity{}
		q.toil(len(q.requests) / scanned)
		for _, r := range q.requests {
			if x := r.coldOf(p.place); x != nil {
				x.noted = 0
			}
			if r.votes[p.place].stands() {
				// Between the two sessions another node may have had the key: see supportedAt.
				r.contended = true
			}
		}
	}
	prove := !q.cfg.NoReceipts && p.receipts.syncAnswered(m)
	q.renew(p, m)
	q.setQuiet(p, m)

	all := q.sorted(nil)
	q.toil(costRead * len(all))
	for _, r := range all {
		v := &r.votes[p.place]
		e, ok := listed.of(r.number)
		if ok {
			p.digest.base = p.digest.base.Plus(vote.DigestOfVote(e.serial))
		}
		switch {
		case r.state == stateEnding:
			// Unless the release was sent on this stream, the sync didn't list the request, so
			// nothing is left of the request.
			if !r.releasedOn(p.place, p.stream) {
				v.released = true
				q.settleEnd(r)
			} else if ok {
				x := r.coldOf(p.place)
				x.relSerial = e.serial
				p.digest.amend(x.relAt, vote.Digest{}.Minus(vote.DigestOfVote(e.serial)))
			}
		case ok && r.state == stateWon && e.serial == v.serial && v.token == r.token:
			// The vote is unchanged, even if an earlier round of the tally has reached the voter
			// since.
		case ok && e.serial == v.serial:
			q.noteToken(p, e.token)
			v.slot, v.token, v.confirming = e.slot, e.token, 0
		case ok && e.serial > r.yielded(p.place):
			r.drop(p.place)
			q.noteToken(p, e.token)
			v.serial, v.slot, v.token = e.serial, e.slot, e.token
			q.settleWant(r, p.place)
		default:
			r.drop(p.place)
		}
		if r.state != stateEnding && v.sent {
			q.sendExtras(p, r)
		}
	}
	q.resendWatches(p)
	q.resendQueries(p)
	q.evaluateAll(all) // first, so that this answer extends no vote outside its list
	q.renewals.begin()
	q.updateValidity()
	q.reportRenewal(p, m.Sent, q.ttl())
	if prove {
		q.refresh(p)
	}
}

// listedVote is a vote in the answer to a sync: the fields of an entry that an answer uses. Entries
// are several times as large, and of a million of them each growth of the list would be long.
type listedVote struct {
	number vote.Number
	serial vote.Serial
	token  vote.Token
	slot   vote.Slot
}

func appendVotes(all []listedVote, entries []vote.Entry) []listedVote {
	for i := range entries {
		e := &entries[i]
		all = append(all, listedVote{e.Number, e.Serial, e.Token, e.Slot})
	}
	return all
}

// listing is the list of votes in the answer to a sync, read in order of the requests' numbers.
type listing struct{ left []listedVote }

// newListing takes a voter's list. The voter lists the requests in the order of the sync, which is
// that of their numbers; a list in another order is sorted.
func newListing(all []listedVote) listing {
	byNumber := func(a, b listedVote) int { return cmp.Compare(a.number, b.number) }
	if !slices.IsSortedFunc(all, byNumber) {
		slices.SortStableFunc(all, byNumber)
	}
	return listing{all}
}

// of returns the vote listed for a request, the last one if there are several; false if there is
// none. The numbers asked for must rise.
func (l *listing) of(n vote.Number) (v listedVote, ok bool) {
	for len(l.left) > 0 && l.left[0].number <= n {
		if l.left[0].number == n {
			v, ok = l.left[0], true
		}
		l.left = l.left[1:]
	}
	return v, ok
}

// setQuiet records whether the voter's votes count, and schedules a refresh for the end of the
// quiet time. If the votes counted before as well, the next refresh stays as scheduled: it may have
// another reason.
func (q *Requester) setQuiet(p *peer, m *vote.Message) {
	was := p.counting
	p.counting = m.Quiet <= 0
	switch {
	case !p.counting:
		p.quiet = q.now.Fast.Add(m.Quiet)
		p.refreshAt = q.now.Fast.Add(max(m.Quiet, quietPoll))
	case !was:
		p.refreshAt = vote.Never
	}
}

// refresh extends the session at a voter.
func (q *Requester) refresh(p *peer) {
	p.refreshAt = vote.Never
	if !p.up() || !p.answered {
		return
	}
	p.refreshed = q.now.Fast
	p.mark.set(p)
	m := q.send(p.conn)
	m.Kind, m.Stream, m.Sent, m.Received, m.RTT, m.Epoch = vote.KindRefresh, p.stream, q.now.Fast, p.received, q.trip(), q.newest.version
	if !q.cfg.NoReceipts {
		p.receipts.fillRefresh(m, q.now.Fast, q.answerTimeout(p))
	}
}

// trip returns the round trip to the slowest voter, the time to collect a majority at worst; zero
// while no majority answers and counts.
func (q *Requester) trip() (rtt time.Duration) {
	if !q.linked() {
		return 0
	}
	for _, p := range q.peers {
		rtt = max(rtt, p.rtt)
	}
	return rtt
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

// renew extends the cover of a session after the answer to a sync or a refresh, and learns the
// voter's clock offset and round trip from the answer.
func (q *Requester) renew(p *peer, m *vote.Message) {
	if p.receipts.counts(m) {
		q.extendValidity(&p.validity, m.Epoch, m.Sent, q.cfg.TTL)
	}
	p.clock(q.now, m.Sent, m.Wall, q.ttl())
	q.setMedian()
	q.setOrder()
}

// settle extends the session by an acknowledgement, but only if both sides agree on the digest.
func (q *Requester) settle(p *peer, m *vote.Message) {
	if m.Incarnation != p.incarnation || m.Generation != p.gen || p.digest.settle(m.Processed, m.Pushed) != (vote.Digest{Count: m.Count, Hash: m.Hash}) {
		q.count.Mismatches++
		q.resync(p)
		return
	}
	q.reached(p, m)
	q.renew(p, m)
	was := p.counting
	q.setQuiet(p, m)
	q.renewals.begin()
	q.updateValidity()
	q.reportRenewal(p, m.Sent, q.ttl())
	if was != p.counting {
		q.evaluatePending()
		if p.counting {
			q.resendQueries(p) // answers given while quiet didn't count
		}
	}
}

// setMedian computes the median offset of the voters' wall clocks from this node's.
func (q *Requester) setMedian() {
	var offsets [vote.MaxVoters]vote.Micros
	n := 0
	for _, p := range q.peers {
		if p.clocked {
			offsets[n] = p.offset
			n++
		}
	}
	if n == 0 {
		return
	}
	slices.Sort(offsets[:n])
	q.median, q.clocked = offsets[n/2], true
}

// QueryTokens asks every reachable voter for its highest known token, on behalf of this node's own
// voter.
func (q *Requester) QueryTokens(now vote.Now, nonce uint64) {
	q.begin(now)
	for _, p := range q.peers {
		if p.up() && p.name != q.cfg.Self.Node {
			q.urgent(p, &vote.Message{Kind: vote.KindAsk, Nonce: nonce})
		}
	}
}
