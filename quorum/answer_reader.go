package quorum

import (
	"cmp"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// answerReader is the task of reading a voter's complete answer to a sync. Afterwards exactly the
// listed votes count for this voter.
//
// A long answer is read request by request, in several pieces, and takes effect at the end. Until
// then the voter doesn't count, and its validity isn't extended; so a vote missing from the answer
// isn't extended, either. Meanwhile each request is in one of two states: before the pass has
// reached the request, the requester acts as if the answer were still on its way; afterwards, as
// after the answer, except for the voter's validity:
//
//   - If the session at the voter is the same as before, the listed votes are valid as long as that
//     session already, whenever the voter gave them.
//   - If the session is another one, the voter has restarted, or the session had ended. Then the
//     end of the earlier session says nothing about the listed votes, and the end of the new
//     session nothing about the votes counted before. So from the beginning to the end of the pass
//     the voter has no validity; the leases keep the validity that they have.
//
// The voter's messages behind the answer wait for the end.
type answerReader struct {
	pass
	listing       listing
	end           vote.Message // the last message of the answer, without its entries
	again         bool         // the session at the voter is another one
	awaitsRefresh bool         // the voter waits for a refresh
	done          bool         // the answer is in effect
	later         []vote.Message
	taken         int // how many of them are taken in
}

// listedVote is a vote in the answer to a sync: the fields of an entry that an answer uses. Entries
// are several times as large.
type listedVote struct {
	number vote.Number
	serial vote.Serial
	token  vote.Token
	slot   vote.Slot
}

// listedPage is how many votes of an answer are kept together: of a million votes in one list, each
// growth of the list would be long.
const listedPage = 1024

// listing is the list of votes in the answer to a sync, read in order of the requests' numbers.
//
// The voter lists the requests in the order of the sync, which is that of their numbers, except for
// those listed ahead.
type listing struct {
	pages [][]listedVote
	at    int // the first vote of pages[0] not read
	size  int
	last  vote.Number
	mixed bool // the votes in pages aren't in order
	ahead map[vote.Number]listedVote
}

// add adds a message of the answer. ahead has the requests that the sync listed ahead.
func (l *listing) add(entries []vote.Entry, ahead map[vote.Number]struct{}) {
	for i := range entries {
		e := &entries[i]
		v := listedVote{e.Number, e.Serial, e.Token, e.Slot}
		l.size++
		if _, ok := ahead[e.Number]; ok {
			if l.ahead == nil {
				l.ahead = make(map[vote.Number]listedVote)
			}
			l.ahead[e.Number] = v
			continue
		}
		l.mixed = l.mixed || e.Number < l.last
		l.last = e.Number
		if n := len(l.pages); n == 0 || len(l.pages[n-1]) == listedPage {
			l.pages = append(l.pages, nil)
		}
		page := &l.pages[len(l.pages)-1]
		*page = append(*page, v)
	}
}

// sort puts a list in order that a voter sent in another order.
func (l *listing) sort() {
	if l.mixed {
		all := slices.Concat(l.pages...)
		slices.SortStableFunc(all, func(a, b listedVote) int { return cmp.Compare(a.number, b.number) })
		l.pages, l.mixed = [][]listedVote{all}, false
	}
}

// of returns the vote listed for a request, the last one if there are several; false if there is
// none. The numbers asked for must rise.
func (l *listing) of(n vote.Number) (v listedVote, ok bool) {
	if v, ok = l.ahead[n]; ok {
		return v, true
	}
	for len(l.pages) > 0 {
		page := l.pages[0]
		for l.at < len(page) && page[l.at].number <= n {
			if page[l.at].number == n {
				v, ok = page[l.at], true
			}
			l.at++
		}
		if l.at < len(page) {
			break
		}
		l.pages, l.at = l.pages[1:], 0
	}
	return v, ok
}

// receiveAnswer collects the answer to the sync, and takes in the complete answer.
func (q *Requester) receiveAnswer(p *peer, m *vote.Message) {
	if p.answered || p.answerReader != nil || p.syncAnswer.size+len(m.Entries) > MaxRequests {
		return
	}
	p.syncAnswer.add(m.Entries, p.ahead)
	p.lastReceived = q.now.Fast
	if !m.End {
		return
	}
	if m.Dir != p.dir {
		text := "its state directory isn't the voter's: the directory was wiped or replaced"
		if q.isBornByCount() {
			text = "it isn't the voter: it is another process of its name"
		}
		q.hangUp(p, text+", and the node has to be voted in anew")
		return
	}
	if m.Sent != p.syncSent || m.Incarnation != p.incarnation || p.syncBuilder != nil && !p.syncBuilder.ended {
		q.hangUp(p, "its answer doesn't match the sync of this node")
		return
	}
	t := &answerReader{pass: q.pass(), listing: p.syncAnswer, end: *m}
	t.end.Entries = nil
	p.syncAnswer, p.ahead = listing{}, nil
	if t.listing.mixed {
		q.spend(t.listing.size)
		t.listing.sort()
	}
	p.refused, p.text, p.nameAlarmed, p.ackEpoch = vote.ReasonNone, "", false, m.Epoch
	p.acked = p.syncSent
	t.again = p.gen != m.Generation
	t.awaitsRefresh = !q.cfg.NoReceipts && p.receipts.syncAnswered(m)
	q.learnClock(p, m)
	if len(q.requests)+t.listing.size <= 2*q.budget() {
		q.readAnswer(p, t)
		return
	}
	if t.again {
		q.keepValidity(p.place)
		p.validity = validity{}
	}
	q.count.ReadInPieces++
	p.answerReader = t
}

// readAnswer takes in a short answer at once.
func (q *Requester) readAnswer(p *peer, t *answerReader) {
	p.answered = true
	if t.again {
		p.validity = validity{}
	}
	q.beginPeerValidity(p, t)
	all := q.sorted(nil)
	q.spend(costRead * len(all))
	for _, r := range all {
		q.readVote(p, t, r)
	}
	q.querier().resendWatches(p)
	q.querier().resendQueries(p)
	q.evaluateAll(all) // first, so that this answer extends no vote outside its list
	q.endAnswer(p, t)
}

// endAnswer puts the validity of the answer into effect for the leases.
func (q *Requester) endAnswer(p *peer, t *answerReader) {
	q.renewals.begin()
	q.updateValidity()
	q.reportRenewal(p, t.end.Sent, q.ttl())
	if t.awaitsRefresh {
		q.refresh(p)
	}
}

// readVote takes in the vote of a request, or that there is none.
func (l *requestLayer) readVote(p *peer, t *answerReader, r *request) {
	v := &r.votes[p.place]
	if t.again {
		if x := r.coldOf(p.place); x != nil {
			x.noted = 0
		}
		if v.stands() {
			// Between the two sessions another node may have had the key: see supportedAt.
			r.contended = true
		}
	}
	e, ok := t.listing.of(r.number)
	if ok {
		p.digest.base = p.digest.base.Plus(vote.DigestOfVote(e.serial))
	}
	switch {
	case r.state == stateEnding:
		// Unless the release was sent on this stream, the sync didn't list the request, so nothing
		// is left of the request.
		if !r.releasedOn(p.place, p.stream) {
			v.released = true
			l.settleEnd(r)
		} else if ok {
			x := r.coldOf(p.place)
			x.relSerial = e.serial
			p.digest.amend(x.relAt, vote.Digest{}.Minus(vote.DigestOfVote(e.serial)))
		}
	case ok && e.serial == v.serial && v.token == r.token && e.slot == v.slot:
		// The request has won (its token is zero before), and the vote is unchanged, even if an
		// earlier round of the tally has reached the voter since. (A voter that has restarted may
		// give the vote's number to a vote for another slot.)
	case ok && e.serial == v.serial:
		l.noteToken(p, e.token)
		v.slot, v.token, v.confirming = e.slot, e.token, 0
	case ok && e.serial > r.yielded(p.place):
		r.drop(p.place)
		l.noteToken(p, e.token)
		v.serial, v.slot, v.token = e.serial, e.slot, e.token
		l.settleWantedSlot(r, p.place)
	default:
		r.drop(p.place)
	}
	if r.state != stateEnding && v.sent {
		l.sendValueAndRevoke(p, r)
	}
}

// continueAnswer continues to take in an answer, and then the messages behind the answer.
func (q *Requester) continueAnswer(p *peer) {
	t := p.answerReader
	for p.answerReader == t && !t.done {
		if q.exhausted() {
			return
		}
		r := t.take()
		if r == nil {
			q.finishAnswer(p, t)
			break
		}
		q.spend(costRead + costEvaluated)
		q.readVote(p, t, r)
		q.evaluate(r)
	}
	for p.answerReader == t && t.taken < len(t.later) {
		if q.exhausted() {
			return
		}
		q.spend(costEvaluated)
		m := &t.later[t.taken]
		t.taken++
		q.receiveOrdered(p, m)
	}
	if p.answerReader == t {
		p.answerReader = nil
	}
}

// finishAnswer puts an answer into effect that was taken in in pieces.
func (q *Requester) finishAnswer(p *peer, t *answerReader) {
	t.done, p.answered = true, true
	p.lastReceived = q.now.Fast // so long this node didn't listen
	q.beginPeerValidity(p, t)
	q.querier().resendWatches(p)
	q.querier().resendQueries(p)
	if !p.counting {
		q.evaluatePending() // the voter is known to give no vote for now
	}
	q.endAnswer(p, t)
}

// keepLater makes a message behind an answer wait until the answer is taken in.
func (q *Requester) keepLater(p *peer, m *vote.Message) {
	if t := p.answerReader; len(t.later)-t.taken < MaxRequests {
		q.count.Kept++
		t.later = append(t.later, *m)
	} else {
		q.hangUp(p, "it sent too many messages behind its answer to the sync of this node")
	}
}

// answeredAbout reports whether the votes counted for a request are those of the voter's answer to
// the sync of this stream, so that changes of these votes can be told on the stream.
func (p *peer) answeredAbout(r *request) bool {
	return p.answered || p.answerReader != nil && p.answerReader.has(r)
}
