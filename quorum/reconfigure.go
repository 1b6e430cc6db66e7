package quorum

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// lengthOf returns how long a vote of a request with a length lasts at least without an extension.
func (l *requestLayer) lengthOf(r *request) time.Duration {
	least, _ := l.granted(r.length())
	return least
}

// validUntil returns the latest instants at which a majority out of s is still valid, one for
// each electorate: by the sessions or, if own isn't nil, by the votes of a request with a length of
// its own.
func (l *requestLayer) validUntil(s Set, own *request) validity {
	until := validity{newest: l.newest.Until(s, func(i int) vote.Instant { return l.validityAt(own, i).newest })}
	if l.before.Known() {
		until.before = l.before.Until(s, func(i int) vote.Instant { return l.validityAt(own, i).before })
	}
	return until
}

func (l *requestLayer) validityAt(own *request, place int) *validity {
	if own == nil {
		return &l.peers[place].validity
	}
	return &own.cold.votes[place].validity
}

// Reconfigure applies a newer electorate, which must be decided. Leases and requests go on: votes
// persist. EventElectorate informs the shell; from then on connections to the new voters are
// needed.
func (q *Requester) Reconfigure(now vote.Now, e *vote.Electorate) {
	q.begin(now)
	if e.Version <= q.decided.Version {
		return
	}
	var before vote.Electorate
	if e.Version == q.decided.Version+1 {
		before = q.decided // the validity under an older electorate is over; see electorates
	}
	kept := before.Version > 0
	shift := func(c *validity) {
		c.newest, c.before = 0, c.newest
		if !kept {
			c.before = 0
		}
	}
	for _, p := range q.peers {
		shift(&p.validity)
	}
	q.spend(len(q.requests) / scanned)
	for _, r := range q.requests {
		if r.cold != nil {
			for i := range r.cold.votes {
				shift(&r.cold.votes[i].validity)
			}
		}
	}
	q.lapsesAt = q.now.Fast.Add(vote.Validity(q.cfg.TTL)) // or earlier, if the voters grant less
	away := slices.DeleteFunc(slices.Clone(q.peers), func(p *peer) bool { return q.newest.all.Has(p.place) })
	q.setConfig(*e, before)
	q.resyncReturned(away)
}

// Abandon gives up the electorate, since no majority of it has answered for long. Every lease is
// lost; EventLost reports each of them. Requests wait for the next electorate, whose voters know
// nothing of this node. EventElectorate reports that no electorate is known. All connections to the
// voters are over: their owner closes them.
func (q *Requester) Abandon(now vote.Now) {
	q.Forfeit(now)
	q.setConfig(vote.Electorate{}, vote.Electorate{})
}

// resyncReturned sends a new sync to voters that were voted out, and in again before their
// connections ended. Requests made meanwhile weren't sent to such a voter, and a voter too slow to
// hear of either change has no reason to ask.
func (l *requestLayer) resyncReturned(away []*peer) {
	for _, p := range away {
		if slices.Contains(l.peers, p) && p.up() {
			l.resync(p)
		}
	}
}

// forgetBefore applies the newest electorate alone, once no lease can rest on the electorate
// before.
func (q *Requester) forgetBefore() {
	if q.before.Known() && q.now.Fast >= q.lapsesAt {
		q.setConfig(q.decided, vote.Electorate{})
	}
}

// setConfig applies both electorates: their voters get places, and all state indexed by place
// moves.
func (q *Requester) setConfig(e, before vote.Electorate) {
	places := slices.Concat(e.All(), before.All())
	slices.SortFunc(places, vote.Elector.Compare)
	places = slices.Compact(places)
	to := q.movePeers(places)
	q.moveVotes(to)
	q.decided, q.newest, q.before = e, NewElectorate(&e, places), NewElectorate(&before, places)
	was, least := q.longestGrant(), q.leastTTL
	if q.leastTTL, q.mostTTL = q.granted(q.cfg.TTL); q.leastTTL < least {
		q.refreshSooner()
	}
	if was > q.mostTTL {
		q.wasMost, q.wasMostUntil = was, q.now.Fast.Add(vote.Validity(was))
	}
	if q.cfg.Dynamic && (e.Version > 0 || len(to) > 0) {
		e := q.emit(EventElectorate, 0)
		e.Electorate, e.Places = q.newest, to
	}
	q.moveGroups(to)
	q.evaluateAll(q.sorted(nil))
	q.settleAll()
	q.updateValidity()
}

// refreshSooner refreshes all sessions at the next Tick, now that they last for less than this node
// has planned with. A voter is silent from the refresh on that it hasn't answered: before, it had
// nothing to answer, however long ago its last answer came.
func (l *sessionLayer) refreshSooner() {
	l.refreshAt = l.now.Fast
	for _, p := range l.peers {
		silentFrom := p.refreshed
		if p.lastReceived >= p.refreshed {
			silentFrom = l.now.Fast
		}
		p.lastReceived = max(p.lastReceived, silentFrom)
	}
}

// settleAll ends the requests and queries with enough confirmations. In a smaller electorate the
// confirmations so far may be enough, and no voter repeats them.
func (q *Requester) settleAll() {
	q.spend(len(q.requests))
	for _, r := range q.sorted(nil) {
		if r.state == stateEnding {
			q.settleEnd(r)
		} else {
			q.settleNoted(r)
		}
	}
	q.querier().settleAll()
}

func (q *Requester) moveVotes(to []int) {
	q.spend(len(q.requests))
	q.requestTable.moveTallies(len(q.peers), to)
	q.queryTable.move(len(q.peers), to)
}

func movePlaces[T any](dst, src []T, to []int) {
	for i, place := range to {
		if place >= 0 {
			dst[place] = src[i]
		}
	}
}

// AckEpoch reports the config epoch of the voter at the other end of a connection. From this node's
// own config epoch on, the voter's acknowledgements can count.
func (q *Requester) AckEpoch(now vote.Now, conn vote.Conn, elected uint64) {
	q.begin(now)
	for _, p := range q.peers {
		if p.up() && p.conn == conn {
			p.ackEpoch = elected
		}
		switch {
		case !p.up() || p.conn != conn || elected < q.newest.version:
		case p.notVoterYet:
			q.resync(p)
		default:
			q.refresh(p)
		}
	}
}
