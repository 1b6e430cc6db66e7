package quorum

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// longestGrant returns the longest time for which an acknowledgement that may support a lease yet
// has extended this node's session.
func (l *sessionLayer) longestGrant() time.Duration {
	if l.now.Fast < l.wasMostUntil {
		return max(l.mostTTL, l.wasMost)
	}
	return l.mostTTL
}

// voters returns the peers that vote in the newest electorate.
func (l *sessionLayer) voters() []*peer {
	if l.newest.all.Len() == len(l.peers) {
		return l.peers
	}
	return slices.DeleteFunc(slices.Clone(l.peers), func(p *peer) bool { return !l.newest.all.Has(p.place) })
}

// refresh extends the session at a voter.
func (l *sessionLayer) refresh(p *peer) {
	p.refreshAt = vote.Never
	if !p.up() || !p.answered {
		return
	}
	p.refreshed = l.now.Fast
	p.ackMark.set(p)
	m := l.send(p.conn)
	m.Kind, m.Stream, m.Sent, m.Received, m.RTT, m.Epoch = vote.KindRefresh, p.stream, l.now.Fast, p.received, l.trip(), l.newest.version
	if !l.cfg.NoReceipts {
		p.receipts.fillRefresh(m, l.now.Fast, l.answerTimeout(p))
	}
}

// trip returns the round trip to the slowest voter, the time to collect a majority at worst; zero
// while no majority answers and counts.
func (l *sessionLayer) trip() (rtt time.Duration) {
	if !l.linked() {
		return 0
	}
	for _, p := range l.peers {
		rtt = max(rtt, p.rtt)
	}
	return rtt
}

// setQuiet records whether the voter's votes count, and schedules a refresh for the end of the
// quiet time. If the votes counted before as well, the next refresh stays as scheduled: it may have
// another reason.
func (l *sessionLayer) setQuiet(p *peer, m *vote.Message) {
	was := p.counting
	p.counting = m.Quiet <= 0
	switch {
	case !p.counting:
		p.quiet = l.now.Fast.Add(m.Quiet)
		p.refreshAt = l.now.Fast.Add(max(m.Quiet, quietPoll))
	case !was:
		p.refreshAt = vote.Never
	}
}

// renew extends the validity of a session after the answer to a sync or a refresh, and learns the
// voter's clock offset and round trip from the answer.
func (l *sessionLayer) renew(p *peer, m *vote.Message) {
	l.extendPeerValidity(p, m)
	l.learnClock(p, m)
}

func (l *sessionLayer) extendPeerValidity(p *peer, m *vote.Message) {
	if p.receipts.counts(m) {
		l.extendValidity(&p.validity, m.Epoch, m.Sent, l.cfg.TTL)
	}
}

func (l *sessionLayer) learnClock(p *peer, m *vote.Message) {
	p.clock(l.now, m.Sent, m.Wall, l.ttl())
	l.stamps.setMedian(l.peers)
	l.sortByDistance()
}

// beginPeerValidity begins the validity of the session at the voter, and learns whether its votes
// count.
func (l *sessionLayer) beginPeerValidity(p *peer, t *answerReader) {
	p.gen = t.end.Generation
	l.extendPeerValidity(p, &t.end)
	l.setQuiet(p, &t.end)
}
