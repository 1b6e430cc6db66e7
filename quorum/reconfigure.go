package quorum

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// electorates are the electorates in use by a requester. With dynamic membership, voters hear of a
// new version one after the other, and each acknowledgement counts under the config epoch of its
// voter. So a lease may rest on the newest version known here, or on the version before.
//
// Why this is safe: two consecutive versions have a half in common, so any two of their majorities
// share a voter. And a version is decided only once no lease can rest any more on the last version
// but one: a majority of the common half has used the version in between for longer than any
// earlier acknowledgement lasts.
type electorates struct {
	decided        vote.Electorate
	newest, before Electorate
	lapsesAt       vote.Instant // when the electorate before is of no use any more
	// The least and the most time for which a voter of either extends this node's session.
	leastTTL, mostTTL time.Duration
	// The most that was granted before these electorates, and until when that may support a lease.
	wasMost      time.Duration
	wasMostUntil vote.Instant
}

// validity is until when a voter upholds its votes: under the newest electorate, and under the
// electorate before. Zero means not at all.
type validity struct {
	newest, before vote.Instant
}

// last returns the later of the two instants.
func (c validity) last() vote.Instant { return max(c.newest, c.before) }

// add returns both instants, later by d.
func (c validity) add(d time.Duration) validity { return validity{c.newest.Add(d), c.before.Add(d)} }

// extendValidity records that a voter with a config epoch upholds its votes until an instant. An
// acknowledgement is of no use under any config epoch but the two in use here.
//
// The voter was asked at an instant for a TTL, and grants at most what its voters have decided
// under its version. So until is computed here, by the version.
func (q *Requester) extendValidity(c *validity, elected uint64, asked vote.Instant, ttl time.Duration) {
	switch elected {
	case q.newest.version:
		c.newest = max(c.newest, asked.Add(vote.Validity(q.newest.granted(ttl))))
	case q.before.version:
		c.before = max(c.before, asked.Add(vote.Validity(q.before.granted(ttl))))
	}
}

// granted returns for how long the voters extend a session or a vote, if asked for a TTL.
func (e *Electorate) granted(ttl time.Duration) time.Duration {
	if e.grants > 0 {
		return min(ttl, e.grants)
	}
	return ttl
}

// granted returns the least and the most time for which a voter extends a session or a vote, if
// asked for a TTL: under the newest electorate, or under the electorate before.
func (q *Requester) granted(ttl time.Duration) (least, most time.Duration) {
	least = q.newest.granted(ttl)
	most = least
	if q.before.Known() {
		d := q.before.granted(ttl)
		least, most = min(least, d), max(most, d)
	}
	return least, most
}

// ttl returns how long a session lasts at least without a refresh: the configured TTL, unless the
// voters grant less.
func (q *Requester) ttl() time.Duration { return q.leastTTL }

// longestGrant returns the longest time for which an acknowledgement that may support a lease yet
// has extended this node's session.
func (q *Requester) longestGrant() time.Duration {
	if q.now.Fast < q.wasMostUntil {
		return max(q.mostTTL, q.wasMost)
	}
	return q.mostTTL
}

// lengthOf returns how long a vote of a request with a length lasts at least without an extension.
func (q *Requester) lengthOf(r *request) time.Duration {
	least, _ := q.granted(r.length())
	return least
}

// decides reports whether the voters of s are a majority under one of the electorates.
func (q *Requester) decides(s Set) bool { return q.newest.Decides(s) || q.before.Decides(s) }

// knowsHeld reports whether a lease is known to be held if all voters of s report the lease: under
// each electorate, one of these voters would have heard of its end.
func (q *Requester) knowsHeld(s Set) bool {
	return q.newest.meetsEveryMajority(s) && (!q.before.Known() || q.before.meetsEveryMajority(s))
}

// validUntil returns the latest instants at which a majority out of s is still valid, one for
// each electorate: by the sessions or, if own isn't nil, by the votes of a request with a length of
// its own.
func (q *Requester) validUntil(s Set, own *request) validity {
	until := validity{newest: q.newest.Until(s, func(i int) vote.Instant { return q.validityAt(own, i).newest })}
	if q.before.Known() {
		until.before = q.before.Until(s, func(i int) vote.Instant { return q.validityAt(own, i).before })
	}
	return until
}

func (q *Requester) validityAt(own *request, place int) *validity {
	if own == nil {
		return &q.peers[place].validity
	}
	return &own.cold.votes[place].validity
}

// voters returns the peers that vote in the newest electorate.
func (q *Requester) voters() []*peer {
	if q.newest.all.Len() == len(q.peers) {
		return q.peers
	}
	return slices.DeleteFunc(slices.Clone(q.peers), func(p *peer) bool { return !q.newest.all.Has(p.place) })
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
func (q *Requester) resyncReturned(away []*peer) {
	for _, p := range away {
		if slices.Contains(q.peers, p) && p.up() {
			q.resync(p)
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

// beforeEnds returns when the electorate before the newest lapses.
func (q *Requester) beforeEnds() vote.Instant {
	if q.before.Known() {
		return q.lapsesAt
	}
	return vote.Never
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
	was := q.longestGrant()
	q.leastTTL, q.mostTTL = q.granted(q.cfg.TTL)
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
	for _, qu := range slices.Clone(q.queries) {
		q.settleQuery(qu)
	}
}

func (q *Requester) moveVotes(to []int) {
	q.spend(len(q.requests))
	q.requestTable.moveTallies(len(q.peers), to)
	for _, qu := range q.queries {
		shown, nonces, spans := make([]vote.Message, len(q.peers)), make([]uint64, len(q.peers)), make([]span, len(q.peers))
		movePlaces(shown, qu.answers, to)
		movePlaces(nonces, qu.nonces, to)
		movePlaces(spans, qu.spans, to)
		qu.nonces, qu.spans = nonces, spans
		qu.answers, qu.asked, qu.complete = shown, qu.asked.Moved(to), qu.complete.Moved(to)
		if qu.watch != nil {
			reports := make([]uint64, len(q.peers))
			movePlaces(reports, qu.reports, to)
			qu.reports = reports
		}
	}
	for _, w := range q.watches {
		at := make([]watchPosition, len(q.peers))
		movePlaces(at, w.positions, to)
		w.positions, w.last = at, nil
	}
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
