package quorum

import (
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// electorates are the ones that a requester goes by. Where the electorate follows the living, voters hear of a new version one after the other, and
// what each of them acknowledges counts under the version that it goes by itself. So a lease may stand under the newest version that is
// known here, or under the one before.
//
// Why that is safe: two versions that follow upon each other have a half in common, and with it a voter of any two majorities. And a version
// is decided only once nothing can stand any more under the last but one: a majority of what they have in common has gone by the
// version in between for longer than anything that it acknowledged before.
type electorates struct {
	places         []vote.Elector // who stands where: the voters of both, in order of their names
	decided        vote.Electorate
	newest, before Electorate
	lapsesAt       vote.Instant // when the one before is of no use any more
	streams        vote.Stream  // the newest stream to a voter that is none any more; it may come back
}

// cover is until when a voter stands by its votes: under the newest electorate, and under the one before. Zero is not at all.
type cover struct {
	newest, before vote.Instant
}

// last returns the later of the two.
func (c cover) last() vote.Instant { return max(c.newest, c.before) }

// add returns both instants, later by d.
func (c cover) add(d time.Duration) cover { return cover{c.newest.Add(d), c.before.Add(d)} }

// cover notes that a voter which goes by a version stands by its votes until an instant. What it acknowledges under any other version than the
// two that count here is of no use.
func (q *Requester) cover(c *cover, elected uint64, until vote.Instant) {
	switch elected {
	case q.newest.version:
		c.newest = max(c.newest, until)
	case q.before.version:
		c.before = max(c.before, until)
	}
}

// decides reports whether the voters of s are a majority under one of the electorates.
func (q *Requester) decides(s Set) bool { return q.newest.Decides(s) || q.before.Decides(s) }

// until returns the latest instants at which a majority out of s is still covered, under each of the electorates: by the sessions, or (not nil) by the
// votes of a request that have a time of their own.
func (q *Requester) until(s Set, own *request) cover {
	until := cover{newest: q.newest.Until(s, func(i int) vote.Instant { return q.covered(own, i).newest })}
	if q.before.Known() {
		until.before = q.before.Until(s, func(i int) vote.Instant { return q.covered(own, i).before })
	}
	return until
}

func (q *Requester) covered(own *request, place int) *cover {
	if own == nil {
		return &q.peers[place].covered
	}
	return &own.rare.votes[place].covered
}

// voters returns the peers that vote in the newest electorate.
func (q *Requester) voters() []*peer {
	if q.newest.all.Len() == len(q.peers) {
		return q.peers
	}
	return slices.DeleteFunc(slices.Clone(q.peers), func(p *peer) bool { return !q.newest.all.Has(p.place) })
}

// Reelect has the requester go by a newer electorate, which is known to be decided. Leases and requests go on: votes persist.
// EventElectorate tells the shell; then connections to those who are new are wanted.
func (q *Requester) Reelect(now vote.Now, e *vote.Electorate) {
	q.begin(now)
	if e.Version <= q.decided.Version {
		return
	}
	var before vote.Electorate
	if e.Version == q.decided.Version+1 {
		before = q.decided // of an older one all covers are over; see electorates
	}
	kept := before.Version > 0
	shift := func(c *cover) {
		c.newest, c.before = 0, c.newest
		if !kept {
			c.before = 0
		}
	}
	for _, p := range q.peers {
		shift(&p.covered)
	}
	for _, r := range q.requests {
		if r.rare != nil {
			for i := range r.rare.votes {
				shift(&r.rare.votes[i].covered)
			}
		}
	}
	q.lapsesAt = q.now.Fast.Add(vote.Cover(q.cfg.TTL))
	away := slices.DeleteFunc(slices.Clone(q.peers), func(p *peer) bool { return q.newest.all.Has(p.place) })
	q.goBy(*e, before)
	q.stateToReturned(away)
}

// stateToReturned speaks anew with voters that were voted out, and in again before their connections ended. What was asked for meanwhile wasn't put to them, and one
// that heard of neither change, since it was slow, has no reason to ask.
func (q *Requester) stateToReturned(away []*peer) {
	for _, p := range away {
		if slices.Contains(q.peers, p) && p.up() {
			q.restate(p)
		}
	}
}

// forgetBefore has the requester go by the newest electorate alone, once nothing can stand under the one before.
func (q *Requester) forgetBefore() {
	if q.before.Known() && q.now.Fast >= q.lapsesAt {
		q.goBy(q.decided, vote.Electorate{})
	}
}

// beforeEnds returns when that is.
func (q *Requester) beforeEnds() vote.Instant {
	if q.before.Known() {
		return q.lapsesAt
	}
	return vote.Never
}

// goBy gives the voters of both electorates their places, and moves everything that is known by places.
func (q *Requester) goBy(e, before vote.Electorate) {
	places := slices.Concat(e.All(), before.All())
	slices.SortFunc(places, vote.Elector.Compare)
	places = slices.Compact(places)
	to := make([]int, len(q.places))
	for i, v := range q.places {
		to[i] = slices.Index(places, v)
	}
	q.movePeers(places, to)
	q.moveVotes(to)
	q.decided, q.newest, q.before = e, Elected(&e, places), Elected(&before, places)
	if q.cfg.Following && e.Version > 0 {
		e := q.tell(EventElectorate, 0)
		e.Electorate, e.Places = q.newest, to
	}
	for _, g := range q.groups {
		// What was promised stands, whoever is to stand behind it from now on.
		g.set, g.floor = g.set.Moved(to), max(g.floor, g.until)
	}
	slices.SortStableFunc(q.groups, func(g, h *group) int { return g.compare(h.set, h.floor, h.of()) })
	q.judgeAll(q.sorted(nil))
	q.settleAll()
	q.reckon()
}

// settleAll ends what enough voters have confirmed. Of a smaller electorate those may be enough that weren't before, and nobody says it again.
func (q *Requester) settleAll() {
	for _, r := range q.sorted(nil) {
		if r.state == stateEnding {
			q.settleEnd(r)
		} else {
			q.settleNoted(r)
		}
	}
	for _, l := range slices.Clone(q.looks) {
		q.settleLook(l)
	}
}

func (q *Requester) movePeers(places []vote.Elector, to []int) {
	peers := make([]*peer, len(places))
	for i, p := range q.peers {
		if to[i] < 0 {
			q.streams = max(q.streams, p.stream)
			continue
		}
		p.place = to[i]
		peers[p.place] = p
	}
	for i, v := range places {
		if peers[i] == nil {
			peers[i] = &peer{place: i, name: v.Name, dir: v.Dir, refreshAt: vote.Never, stream: q.streams}
		}
	}
	q.places, q.peers = places, peers
	q.begins = q.beginning()
	q.setOrder()
}

func (q *Requester) moveVotes(to []int) {
	for _, r := range q.requests {
		votes := make([]counted, len(q.peers))
		moved(votes, r.votes, to)
		r.votes = votes
		if r.rare != nil {
			votes := make([]rareVote, len(q.peers))
			moved(votes, r.rare.votes, to)
			r.rare.votes = votes
		}
	}
	q.free = pools{} // they have room for as many votes as there were voters
	for _, l := range q.looks {
		shown := make([]vote.Message, len(q.peers))
		moved(shown, l.shown, to)
		l.shown, l.asked, l.ends = shown, l.asked.Moved(to), l.ends.Moved(to)
	}
	for _, w := range q.watches {
		at := make([]watched, len(q.peers))
		moved(at, w.at, to)
		w.at = at
	}
}

func moved[T any](dst, src []T, to []int) {
	for i, place := range to {
		if place >= 0 {
			dst[place] = src[i]
		}
	}
}

// Goes says that the voter at the other end of a connection goes by a version from now on. If that is ours, it can acknowledge what counts.
func (q *Requester) Goes(now vote.Now, conn vote.Conn, elected uint64) {
	q.begin(now)
	for _, p := range q.peers {
		if p.up() && p.conn == conn {
			p.goes = elected
		}
		switch {
		case !p.up() || p.conn != conn || elected < q.newest.version:
		case p.notYet:
			q.restate(p)
		default:
			q.refresh(p)
		}
	}
}

// Knows reports whether a node of that name is among the voters that this requester speaks with.
func (q *Requester) Knows(name vote.NodeID) bool { return q.peerOf(name) != nil }

// Linked reports whether there is a connection to the voter of that name.
func (q *Requester) Linked(name vote.NodeID) bool {
	p := q.peerOf(name)
	return p != nil && p.up()
}

// Peers returns the voters that this node wants connections to, in order of their names.
func (q *Requester) Peers() []vote.Elector { return q.places }
