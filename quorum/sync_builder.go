package quorum

import "github.com/lockmesh/lockmesh/internal/vote"

// syncBuilder is the task of making a sync: a list of everything the session wants and holds at a
// voter.
//
// A sync of many requests is made in several pieces, and what is said on the stream behind the sync
// waits for its end. So to the voter a sync made in pieces is the same as a sync made at once that
// was on its way for longer, if each request is listed as of one moment, and every later change of
// the request is told behind the sync. To this end a request that is about to change, by a win, a
// release, or a change of its mode or of its end, is listed before the change. A request that has
// to be sent to the voter is listed instead. A request made after the beginning of the stream isn't
// listed, so that the sync comes to an end, but sent behind the sync.
//
// A voter's votes don't change meanwhile: on this stream the voter can't have said anything yet.
type syncBuilder struct {
	pass
	// The requests listed ahead of the pass, since they were about to change.
	ahead map[vote.Number]struct{}
	chunk vote.Message
	ended bool            // the sync is complete
	after []vote.Outbound // the messages behind the sync
	sent  int             // how many of them are sent
}

// listed reports whether a request was listed, or passed over for good.
func (b *syncBuilder) listed(r *request) bool {
	if b.ended || b.has(r) {
		return true
	}
	_, ok := b.ahead[r.number]
	return ok
}

// list adds a request to the sync.
func (l *requestLayer) list(p *peer, r *request, m *vote.Message) {
	if x := r.coldOf(p.place); x != nil && p.reborn {
		x.yielded, x.noted, x.revokes, x.barred = 0, 0, 0, nil
	}
	if r.state == stateEnding || r.local == localQueued {
		return
	}
	v := &r.votes[p.place]
	if !l.newest.all.Has(p.place) {
		v.sent = false // the voter drops unlisted requests
		return
	}
	// The voter may have confirmed the requested token, so v.asking stays.
	v.sent, v.busy, v.unfit, v.released = true, false, 0, false
	if x := r.coldOf(p.place); x != nil {
		x.taken, x.extending = 0, false
	}
	p.digest.base = p.digest.base.Plus(vote.DigestOfRequest(r.number))
	if len(m.Entries) == vote.MaxEntries {
		l.urgent(p, m)
		m.Entries = nil
	}
	if m.Entries == nil {
		m.Entries = make([]vote.Entry, 0, min(vote.MaxEntries, len(l.requests)))
	}
	slot := r.slot
	if slot == 0 {
		slot = r.wantedSlot(p.place)
	}
	m.Entries = append(m.Entries, vote.Entry{
		Spec: r.spec(l.now.Fast), Number: r.number, Time: r.time, TokenHint: r.tokenHint,
		Serial: v.serial, Yielded: r.yielded(p.place), Slot: slot, Token: r.token,
	})
}

// beforeChange lists a request that is about to change in the syncs that are being made.
func (l *requestLayer) beforeChange(r *request) {
	for _, p := range l.peers {
		if p.syncBuilder != nil {
			l.listAhead(p, r)
		}
	}
}

// listAhead lists a request in the sync that is being made for a voter, and reports whether the
// request had not been listed yet.
func (l *requestLayer) listAhead(p *peer, r *request) bool {
	t := p.syncBuilder
	if t == nil || t.listed(r) {
		return false
	}
	t.ahead[r.number] = struct{}{}
	l.count.ListedAhead++
	l.spend(costStated)
	l.list(p, r, &t.chunk)
	return true
}

// continueSync continues the making of a sync, until it and the messages behind it are sent.
func (l *requestLayer) continueSync(p *peer) {
	t := p.syncBuilder
	for !t.ended {
		if l.exhausted() {
			return
		}
		r := t.take()
		if r == nil {
			t.ended, t.chunk.End, p.ahead, p.reborn = true, true, t.ahead, false
			l.urgent(p, &t.chunk)
			break
		}
		if _, ok := t.ahead[r.number]; ok {
			continue
		}
		l.spend(costStated)
		l.list(p, r, &t.chunk)
	}
	for t.sent < len(t.after) {
		if l.exhausted() {
			return
		}
		l.spend(1)
		l.out = append(l.out, t.after[t.sent])
		t.after[t.sent] = vote.Outbound{}
		t.sent++
	}
	p.syncBuilder = nil
	p.lastReceived = l.now.Fast // so long the voter had nothing to answer
}
