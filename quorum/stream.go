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

// peerAt returns the voter at the other end of a connection. There are few, and to compare numbers is quicker than to look for names.
func (q *Requester) peerAt(conn vote.Conn) *peer {
	for _, p := range q.peers {
		if p.conn == conn && p.up() {
			return p
		}
	}
	return nil
}

// Link says that a connection to a voter is up. The session's statement goes out at once.
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
	if p.life != voter.Life {
		// Serials of one life say nothing of another's.
		for _, r := range q.requests {
			if x := r.rareOf(p.place); x != nil {
				x.yielded, x.noted, x.urges, x.barred = 0, 0, 0, nil
			}
		}
		// Nor do generations: zero is none, so the answer begins anew what is covered.
		p.life, p.gen = voter.Life, 0
	}
	p.link, p.conn, p.lastWord, p.text = linkUp, conn, q.now.Fast, ""
	q.restate(p)
}

// Unlink says that a connection is gone. The votes stand as long as their session is covered.
func (q *Requester) Unlink(now vote.Now, conn vote.Conn) {
	q.begin(now)
	for _, p := range q.peers {
		if p.up() && p.conn == conn {
			p.link, p.answered, p.refreshAt = linkConnecting, false, vote.Never
			q.judgePending()
		}
	}
}

// DialFailed says that a voter can't be reached for now. One that has refused us still counts as refusing: it is its last word.
func (q *Requester) DialFailed(now vote.Now, voter vote.NodeID, text string) {
	q.begin(now)
	if p := q.peerOf(voter); p != nil && !p.up() {
		p.link, p.text = linkUnreachable, text
		q.judgePending()
	}
}

// Refused says that a voter's handshake turned us away; with ReasonNone, that it no longer does.
func (q *Requester) Refused(now vote.Now, voter vote.NodeID, why vote.Reason, text string) {
	q.begin(now)
	if p := q.peerOf(voter); p != nil && !p.up() {
		p.refused, p.text = why, text
		if why == vote.ReasonNone {
			p.link = linkConnecting
		}
		q.judgePending()
	}
}

// hangUp closes the stream to a voter; whoever owns the connections will dial again.
func (q *Requester) hangUp(p *peer, text string) {
	q.closes(p.conn)
	p.link, p.answered, p.refreshAt, p.text = linkConnecting, false, vote.Never, text
	q.judgePending()
}

// restate begins a new stream with the statement of all that the session wants and holds at the voter.
func (q *Requester) restate(p *peer) {
	q.count.Restatements++
	p.stream++
	p.answered, p.ahead, p.listing, p.refreshAt = false, nil, nil, vote.Never
	p.said, p.heard = 0, 0
	p.book.reset()
	p.stated, p.refreshed = q.now.Fast, q.now.Fast
	p.notYet = false
	q.urgent(p, &vote.Message{Kind: vote.KindOpen, Stream: p.stream, TTL: q.cfg.TTL, RTT: q.trip(), Sent: q.now.Fast, Elected: q.newest.version})
	m := vote.Message{Kind: vote.KindStatement, Stream: p.stream}
	for _, r := range q.sorted(nil) {
		if r.state == stateEnding || r.parked {
			continue
		}
		v := &r.votes[p.place]
		if !q.newest.Committee(r.key).Has(p.place) {
			v.asked = false // it drops what isn't listed
			continue
		}
		v.asked, v.busy, v.unfit, v.released = true, false, 0, false // what it is asked to confirm it may have
		if x := r.rareOf(p.place); x != nil {
			x.taken, x.extending = 0, false
		}
		p.book.base = p.book.base.Plus(vote.OfRequest(r.number))
		if len(m.Entries) == vote.MaxEntries {
			q.urgent(p, &m)
			m.Entries = nil
		}
		slot := r.slot
		if slot == 0 {
			slot = r.want(p.place)
		}
		m.Entries = append(m.Entries, vote.Entry{
			Wish: r.wish(), Number: r.number, Time: r.time, Bid: r.bid, Serial: v.serial, Yielded: r.yielded(p.place), Slot: slot, Token: r.token,
		})
	}
	m.End = true
	q.urgent(p, &m)
}

// Deliver takes in one message of a voter that came over conn.
func (q *Requester) Deliver(now vote.Now, conn vote.Conn, from vote.SessionID, m *vote.Message) {
	q.begin(now)
	p := q.peerAt(conn)
	if p == nil || p.life != from.Life || p.name != from.Node {
		return // a word of an earlier connection or life
	}
	p.slow = false
	switch m.Kind {
	case vote.KindShow, vote.KindPassed:
		q.hearShow(p, m)
		return
	case vote.KindNews:
		q.hearNews(p, m)
		return
	}
	if p.stream != m.Stream {
		return // a word of an earlier stream
	}
	switch m.Kind {
	case vote.KindUnknown:
		if !p.notYet { // that is what it says of the statement behind the word that it has refused
			q.restate(p)
		}
	case vote.KindProbe:
		q.urgent(p, &vote.Message{Kind: vote.KindAlive, Stream: p.stream})
	case vote.KindRefused:
		q.turnedAway(p, m.Reason)
	case vote.KindAnswer:
		q.hearAnswer(p, m)
	case vote.KindAck:
		if p.answered {
			q.hearAck(p, m)
		}
	default:
		if p.answered {
			p.heard++
			q.hear(p, m)
			for len(p.ahead) > 0 && p.ahead[0].Pushed <= p.heard {
				ack := p.ahead[0]
				p.ahead = p.ahead[1:]
				q.settle(p, &ack)
			}
		}
	}
}

// turnedAway takes a voter's refusal of our session.
func (q *Requester) turnedAway(p *peer, why vote.Reason) {
	if why == vote.ReasonNotVoter && q.cfg.Following {
		// It doesn't know yet, or knows better; either way the electorates are being exchanged. See Requester.Goes.
		p.answered, p.refreshAt, p.notYet = false, vote.Never, true
		q.judgePending()
		return
	}
	p.refused = why
	if why == vote.ReasonNameTaken {
		q.nameTaken = true
		if q.cfg.Self.Node != p.name {
			q.Alarm(fmt.Sprintf(
				"%s refuses this process: another live process is called %q too; give one of them another name", p.name, q.cfg.Self.Node))
		}
	}
	q.hangUp(p, why.String())
}

// hearAnswer collects the answer to our statement. At its end the votes that it lists stand, and no others.
func (q *Requester) hearAnswer(p *peer, m *vote.Message) {
	if p.answered || len(p.listing)+len(m.Entries) > MaxRequests {
		return
	}
	p.listing = append(p.listing, m.Entries...)
	p.lastWord = q.now.Fast
	if !m.End {
		return
	}
	if m.Dir != p.dir {
		q.hangUp(p, "its state directory isn't the voter's: it was wiped or replaced, and has to be voted in anew")
		return
	}
	if m.Sent != p.stated || m.Life != p.life {
		q.hangUp(p, "it answered what wasn't asked")
		return
	}
	listed := make(map[vote.Number]*vote.Entry, len(p.listing))
	for i := range p.listing {
		listed[p.listing[i].Number] = &p.listing[i]
	}
	p.listing = nil
	p.answered, p.refused, p.text, p.goes = true, vote.ReasonNone, "", m.Elected
	if p.gen != m.Generation {
		// Another session: what covered the old one's votes covers none of these.
		p.gen, p.covered = m.Generation, cover{}
		for _, r := range q.requests {
			if x := r.rareOf(p.place); x != nil {
				x.noted = 0
			}
			if r.votes[p.place].stands() {
				r.wanted = true // between the two sessions somebody may have had the key: see stoodAt
			}
		}
	}
	q.renew(p, m)
	q.setQuiet(p, m)

	all := q.sorted(nil)
	for _, r := range all {
		v := &r.votes[p.place]
		e, ok := listed[r.number]
		if ok {
			p.book.base = p.book.base.Plus(vote.OfVote(e.Serial))
		}
		switch {
		case r.state == stateEnding:
			if !r.releasedOn(p.place, p.stream) { // the statement didn't list it, so nothing of it is left
				v.released = true
				q.settleEnd(r)
			} else if ok {
				x := r.rareOf(p.place)
				x.relSerial = e.Serial
				p.book.amend(x.relAt, vote.Ledger{}.Minus(vote.OfVote(e.Serial)))
			}
		case ok && r.state == stateWon && e.Serial == v.serial && v.token == r.token:
			// It stands as it stood, even if an earlier round of the ballot has reached the voter since.
		case ok && e.Serial == v.serial:
			v.slot, v.token, v.asking = e.Slot, e.Token, 0
		case ok && e.Serial > r.yielded(p.place):
			r.drop(p.place)
			v.serial, v.slot, v.token = e.Serial, e.Slot, e.Token
			q.settleWant(r, p.place)
		default:
			r.drop(p.place)
		}
		if r.state != stateEnding && v.asked {
			q.sayExtras(p, r)
		}
	}
	q.watchAgain(p)
	q.lookAgain(p)
	q.judgeAll(all) // first, so that this answer extends no vote that it doesn't list
	q.reckon()
}

// setQuiet notes whether the voter's votes count, and asks again when they should. Of one that counts a refresh may be due for another reason.
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
	m := q.send(p.conn)
	m.Kind, m.Stream, m.Sent, m.Received, m.RTT, m.Elected = vote.KindRefresh, p.stream, q.now.Fast, p.heard, q.trip(), q.newest.version
}

// trip is the round trip to the slowest voter, what collecting a majority can take; zero while no majority answers and counts.
func (q *Requester) trip() (rtt time.Duration) {
	if !q.Ready() {
		return 0
	}
	for _, p := range q.peers {
		rtt = max(rtt, p.rtt)
	}
	return rtt
}

// hearAck takes the answer to a refresh. One that overtook what it speaks of waits for that; the voter lives all the same.
func (q *Requester) hearAck(p *peer, m *vote.Message) {
	if m.Sent < p.stated || m.Sent > p.refreshed {
		return // no refresh of ours on this stream
	}
	p.lastWord = q.now.Fast
	p.goes = m.Elected
	if m.Life == p.life {
		q.watch(p, m)
	}
	switch {
	case m.Pushed <= p.heard && len(p.ahead) == 0:
		q.settle(p, m)
	case len(p.ahead) < aheadMax:
		p.ahead = append(p.ahead, *m)
	}
}

// renew extends what is covered of a session by the answer to a statement or a refresh, and learns from that how the voter's clock stands and how far away it is.
func (q *Requester) renew(p *peer, m *vote.Message) {
	q.cover(&p.covered, m.Elected, m.Sent.Add(vote.Cover(q.cfg.TTL)))
	p.clock(q.now, m.Sent, m.Wall, q.cfg.TTL)
	q.setMedian()
	q.setOrder()
}

// settle extends the session by an acknowledgement. Only what both sides agree on is extended.
func (q *Requester) settle(p *peer, m *vote.Message) {
	if m.Life != p.life || m.Generation != p.gen || p.book.settle(m.Processed, m.Pushed) != (vote.Ledger{Count: m.Count, Hash: m.Hash}) {
		q.count.Mismatches++
		q.restate(p)
		return
	}
	q.renew(p, m)
	was := p.counting
	q.setQuiet(p, m)
	q.reckon()
	if was != p.counting {
		q.judgePending()
		if p.counting {
			q.lookAgain(p) // what it said while it was quiet didn't count
		}
	}
}

// setMedian notes where the voters' wall clocks stand to ours.
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

// Ask asks every voter that can be reached for the highest token it knows, on behalf of our own voter.
func (q *Requester) Ask(now vote.Now, nonce uint64) {
	q.begin(now)
	for _, p := range q.peers {
		if p.up() && p.name != q.cfg.Self.Node {
			q.urgent(p, &vote.Message{Kind: vote.KindAsk, Nonce: nonce})
		}
	}
}
