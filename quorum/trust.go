package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// The requester checks the tokens named by voters as the voters check each other (lease/trust.go):
// a token is accepted up to vote.TokenStep above the tokens known to this node. A vote for a larger
// token holds, as a vote for another token does, but the tally doesn't settle on the larger token:
// the other voters would refuse the confirmation, and the request would wait without end. So to its
// requesters, a voter with wrong tokens is like a slow voter.

// tokenAlarmEvery is the least time between alarms about one voter's tokens, and how long the
// voter's state mentions them.
const tokenAlarmEvery = 10 * time.Minute

// suspectTokens records tokens named by a voter but not shown by any clock.
type suspectTokens struct {
	// The largest token named by the voter, where far above this node's clock.
	top   vote.Token
	named vote.Token // the newest refused token
	// Since when tokens are refused, if an alarm is due; zero otherwise.
	since     vote.Instant
	alarmedAt vote.Instant // when an alarm was raised last; zero for never
	text      string       // the text of the last alarm
}

// tokenLimit returns the largest token that this node accepts from a voter. The limit derives from
// tokens won or accepted before, from the voters' clocks (or else this node's clock), and from the
// tokens named by so many voters that they can't all be wrong: as many as share a voter with every
// majority, and never a single voter out of several.
func (l *sessionLayer) tokenLimit() vote.Token {
	clock := l.LatestClock()
	if clock == 0 {
		clock = l.now.Wall
	}
	return vote.MaxFrom(max(l.stamps.seen, vote.TokenAt(clock), l.backedToken()))
}

// LatestClock returns the latest time on the clocks of the voters, from answers of voters that this
// requester has accepted; zero if none is known.
func (l *sessionLayer) LatestClock() (latest vote.Micros) {
	for _, p := range l.peers {
		if p.clocked {
			latest = max(latest, l.now.Wall+p.offset)
		}
	}
	return latest
}

func (l *sessionLayer) backedToken() (top vote.Token) {
	for _, h := range l.newest.halves {
		var all []vote.Token
		for i, p := range l.peers {
			if h.voters.Has(i) {
				all = append(all, p.suspect.top)
			}
		}
		slices.SortFunc(all, func(a, b vote.Token) int { return cmp.Compare(b, a) })
		need := max(len(all)-h.majority+1, min(len(all), 2))
		if len(l.newest.halves) > 1 {
			need = max(need, 2)
		}
		if need >= 1 && len(all) >= need {
			top = max(top, all[need-1])
		}
	}
	return top
}

// accepts reports whether a token named by a voter may be right, and prepares an alarm otherwise.
func (l *sessionLayer) accepts(p *peer, t vote.Token) bool {
	if t <= vote.MaxFrom(max(vote.TokenAt(l.now.Wall), l.stamps.seen)) && t <= vote.MaxFrom(vote.TokenAt(l.now.Wall+p.offset)) {
		return true // the usual case
	}
	p.suspect.top = max(p.suspect.top, t)
	limit := l.tokenLimit()
	if t <= limit {
		return true
	}
	l.count.Distrusted++
	p.suspect.named = t
	if p.suspect.since == 0 && (p.suspect.alarmedAt == 0 || l.now.Fast.Sub(p.suspect.alarmedAt) >= tokenAlarmEvery) {
		p.suspect.since = l.now.Fast
	}
	return false
}

// raiseTokenAlarms raises alarms about implausible tokens, after a delay: a token named first by
// one voter may be named by the others a moment later.
func (l *sessionLayer) raiseTokenAlarms() {
	for _, p := range l.peers {
		if p.suspect.since == 0 || l.now.Fast.Sub(p.suspect.since) < vote.TokenQueryTimeout {
			continue
		}
		p.suspect.since = 0
		if limit := l.tokenLimit(); p.suspect.named > limit {
			p.suspect.alarmedAt = l.now.Fast
			p.suspect.text = fmt.Sprintf("it named the token %d, and this node accepts none above "+
				"%d", p.suspect.named, limit)
			l.Alarm(fmt.Sprintf("voter %q named the token %d, which is refused: the token is more "+
				"than a day above the clocks of the voters, and above what enough other voters "+
				"name (%d). Check the clock of %q, and restart that node", p.name, p.suspect.named,
				limit, p.name))
		}
	}
}

// implausible reports whether a vote's token can't be right.
func (l *sessionLayer) implausible(t vote.Token) bool {
	return t > vote.MaxFrom(l.stamps.seen) && t > l.tokenLimit()
}

// filterViews removes view entries with implausible tokens from a list, and reports whether there
// were any. The voter has checked the tokens from the owner of a lease; so a voter with another
// token is broken.
func (l *sessionLayer) filterViews(p *peer, views []vote.View) (tamed []vote.View, wild bool) {
	for i := range views {
		if !l.accepts(p, views[i].Token) {
			bad := func(s vote.View) bool { return l.implausible(s.Token) }
			return slices.DeleteFunc(slices.Clone(views), bad), true
		}
	}
	return views, false
}

// noteToken records a token proposed or confirmed by a voter, for the next token hint.
func (l *sessionLayer) noteToken(p *peer, t vote.Token) {
	if l.accepts(p, t) {
		l.stamps.note(t)
	}
}

// largest returns the token on which a tally settles.
func (d deliverer) largest(r *request, slot vote.Slot) vote.Token {
	t, all := r.tally.token(slot, vote.MaxFrom(d.stamps.seen))
	if all <= t {
		return t
	}
	if t, _ = r.tally.token(slot, d.tokenLimit()); t < all {
		// Without this vote the request needs the deferred voters to decide.
		d.sendDeferred(r)
	}
	return t
}
