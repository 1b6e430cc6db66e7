package quorum

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// When a request is put to voters. A majority is enough to win, and each voter that is woken costs as much as the whole of a lock costs here. So the voters that
// aren't needed are spared: they hear of a request when it has gone on for a while, since one of the others is slow or the lease is held, and never if it is
// over by then. A voter that hasn't heard of a request is to all others one to which the words were late. A lease that lasts rests on all voters, as
// it must: if it went on with a bare majority, the restart of any of those would end it.

const (
	// spareMin is for how long voters are spared at least: longer than most locks take between processes of one network, and less than is felt
	// where one of those asked first has just died.
	spareMin = 500 * time.Microsecond

	// spareMax is for how long at most: as long as a lock takes under a load of thousands at once.
	spareMax = 50 * time.Millisecond

	// spareBatch is how many requests are put to the rest at once. More are put to them right after, when those words are on their way: the room that they
	// take meanwhile is kept.
	spareBatch = 128
)

// spared is a request of which not all voters have heard.
type spared struct {
	at     vote.Instant // when they do
	number vote.Number  // if r still has it; else it is over
	r      *request
	won    bool // it had won when it was looked at first
}

func (s *spared) over() bool { return s.r.number != s.number || !s.r.sparing }

// spare notes that voters are spared that a request may need. It is said to them in a while, unless it is over by then.
func (q *Requester) spare(r *request) {
	r.sparing = true
	q.firstSpared() // those that are over make room
	q.spared.push(spared{at: q.now.Fast.Add(q.spareFor()), number: r.number, r: r})
}

// firstSpared returns the first request of which not all voters have heard; nil for none.
func (q *Requester) firstSpared() *spared {
	for q.spared.len() > 0 {
		if s := q.spared.first(); !s.over() {
			return s
		}
		q.spared.pop()
	}
	return nil
}

// spareFor returns for how long voters are spared: for as long as a round trip takes. A lease that has been won by then has as long again to be given back,
// and its release to be confirmed.
func (q *Requester) spareFor() time.Duration {
	return min(max(q.pace.most(), spareMin), spareMax, q.every()/4)
}

// pace is how long round trips take, as TCP reckons it (Jacobson, "Congestion avoidance and control", 1988).
type pace struct {
	mean, swing time.Duration
}

func (p *pace) learn(trip time.Duration) {
	off := trip - p.mean
	p.mean += off / 8
	p.swing += (max(off, -off) - p.swing) / 4
}

// most is what hardly any round trip exceeds, even while there are more and more at once.
func (p *pace) most() time.Duration { return 2*p.mean + 4*p.swing }

// noteRelease notes when a request was released.
func (q *Requester) noteRelease(r *request) {
	if !q.cfg.ToAll {
		r.since = q.now.Fast
	}
}

// paced learns from a release that a majority has confirmed it. No voter keeps a release waiting, as it does a request, so its round trip shows how long words
// take now; that is long when there are many.
func (q *Requester) paced(r *request) {
	if q.cfg.ToAll || r.since == 0 {
		return
	}
	var done Set
	for i := range r.votes {
		if v := &r.votes[i]; v.asked && v.released {
			done = done.With(i)
		}
	}
	if q.newest.Decides(done) {
		q.pace.learn(min(q.now.Fast.Sub(r.since), spareMax))
		r.since = 0
	}
}

// askTheRest puts those requests to all voters whose time has come.
func (q *Requester) askTheRest() {
	for range spareBatch {
		s := q.firstSpared()
		if s == nil || s.at > q.now.Fast {
			return
		}
		r, again := s.r, s.won
		q.spared.pop()
		switch r.state {
		case statePending:
			for _, p := range q.peers {
				if v := &r.votes[p.place]; v.asked && !v.stands() {
					p.slow = true
				}
			}
		case stateWon:
			if !again {
				q.spared.push(spared{at: q.now.Fast.Add(q.spareFor()), number: r.number, r: r, won: true})
				continue
			}
		case stateEnding:
			if at := r.since.Add(q.spareFor()); at > q.now.Fast {
				q.spared.push(spared{at: at, number: r.number, r: r})
				continue
			}
		}
		q.askRest(r)
	}
}

// askRest puts a request to the voters that were spared. Of one that has ended they say that they have nothing, where one that was asked is slow to say so.
func (q *Requester) askRest(r *request) {
	if !r.sparing {
		return
	}
	r.sparing = false
	for _, p := range q.peers {
		v := &r.votes[p.place]
		if v.asked || v.busy || v.unfit != 0 || !p.up() || !q.newest.Committee(r.key).Has(p.place) {
			continue
		}
		switch r.state {
		case statePending:
			q.askFor(p, r)
		case stateWon:
			q.askFor(p, r)
			q.report(p, r)
		case stateEnding:
			if r.tell {
				v.asked = true
				q.say(p, vote.Ledger{}, vote.KindRelease, r.number)
			}
		}
	}
}
