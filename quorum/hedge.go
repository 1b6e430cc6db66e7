package quorum

import (
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// When a request is sent to the voters. A majority is enough to win, and waking a voter costs as
// much as the rest of a lock on this node. So the requester sends to a majority first and defers
// the request to the other voters (a hedge): they are asked once the request has gone on for a
// while, since one of the first voters is slow or the lease is held, and never if the request is
// over by then. To all other nodes, a voter without the request is indistinguishable from a voter
// reached by late messages. A lasting lease rests on all voters, as it must: with the votes of a
// bare majority, the restart of any of these voters would end the lease.

const (
	// minHedgeDelay is the least deferral time: longer than most locks take between processes in
	// one network, and too short to be felt when one of the first voters has just crashed.
	minHedgeDelay = 500 * time.Microsecond

	// maxHedgeDelay is the greatest deferral time: as long as a lock takes under a load of
	// thousands at once.
	maxHedgeDelay = 50 * time.Millisecond

	// hedgeBatch is how many deferred requests are sent at once. The rest follows right after these
	// messages have left: the memory taken by messages in the meantime is kept.
	hedgeBatch = 128
)

// hedgedRequest is a request sent to some voters only.
type hedgedRequest struct {
	at     vote.Instant // when the other voters are asked
	number vote.Number  // the request's number; if r has another number, the request is over
	r      *request
	won    bool // the request had won when its time came first
}

func (s *hedgedRequest) over() bool { return s.r.number != s.number || !s.r.hedging }

// hedges has the requests that were deferred to some voters, and for how long.
type hedges struct {
	hedged     sliding[hedgedRequest] // by when they are sent
	releaseRTT rttEstimator           // from a release to its confirmation by a majority
}

// hedge defers a request to voters that may be needed later. They are asked after a while, unless
// the request is over by then.
func (d deliverer) hedge(r *request) {
	r.hedging = true
	d.firstHedged() // makes room: drops finished requests
	d.hedged.push(hedgedRequest{at: d.now.Fast.Add(d.hedgeDelay()), number: r.number, r: r})
}

// firstHedged returns the first deferred request; nil for none.
func (h *hedges) firstHedged() *hedgedRequest {
	for h.hedged.len() > 0 {
		if s := h.hedged.first(); !s.over() {
			return s
		}
		h.hedged.pop()
	}
	return nil
}

// hedgeDelay returns how long requests are deferred: as long as a round trip takes. A lease won by
// then gets as much time again for its release and the confirmation.
func (d deliverer) hedgeDelay() time.Duration {
	return min(max(d.releaseRTT.upper(), minHedgeDelay), maxHedgeDelay, d.every()/4)
}

// rttEstimator estimates the round trip as TCP does (Jacobson, "Congestion avoidance and control",
// 1988).
type rttEstimator struct {
	mean, deviation time.Duration
}

func (r *rttEstimator) add(trip time.Duration) {
	off := trip - r.mean
	r.mean += off / 8
	r.deviation += (max(off, -off) - r.deviation) / 4
}

// upper returns a time that hardly any round trip exceeds, even while the load is growing.
func (r *rttEstimator) upper() time.Duration { return 2*r.mean + 4*r.deviation }

// noteRelease records when a request was released.
func (l *requestLayer) noteRelease(r *request) {
	if !l.cfg.BroadcastAll {
		r.since = l.now.Fast
	}
}

// measureRelease measures the round trip of a release, once confirmed by a majority. No voter makes
// a release wait, unlike a request, so this round trip shows how long messages take now; under load
// the time is long.
func (d deliverer) measureRelease(r *request) {
	if d.cfg.BroadcastAll || r.since == 0 {
		return
	}
	var done Set
	for i := range r.votes {
		if v := &r.votes[i]; v.sent && v.released {
			done = done.With(i)
		}
	}
	if d.newest.Decides(done) {
		d.releaseRTT.add(min(d.now.Fast.Sub(r.since), maxHedgeDelay))
		r.since = 0
	}
}

// sendDueHedges sends the deferred requests that are due.
func (d deliverer) sendDueHedges() {
	for range hedgeBatch {
		s := d.firstHedged()
		if s == nil || s.at > d.now.Fast {
			return
		}
		r, again := s.r, s.won
		d.hedged.pop()
		d.spend(1)
		switch r.state {
		case statePending:
			for _, p := range d.peers {
				if v := &r.votes[p.place]; v.sent && !v.stands() {
					p.slow = true
				}
			}
		case stateWon:
			if !again {
				d.hedged.push(hedgedRequest{at: d.now.Fast.Add(d.hedgeDelay()), number: r.number, r: r, won: true})
				continue
			}
		case stateEnding:
			if at := r.since.Add(d.hedgeDelay()); at > d.now.Fast {
				d.hedged.push(hedgedRequest{at: at, number: r.number, r: r})
				continue
			}
		}
		d.sendDeferred(r)
	}
}

// sendDeferred sends a deferred request to the other voters. If the request has ended, these voters
// confirm its release, which helps when one of the first voters is slow to confirm.
func (d deliverer) sendDeferred(r *request) {
	if !r.hedging {
		return
	}
	r.hedging = false
	for _, p := range d.peers {
		v := &r.votes[p.place]
		if v.sent || v.busy || v.unfit != 0 || !p.up() || !d.newest.all.Has(p.place) {
			continue
		}
		switch r.state {
		case statePending:
			d.sendRequest(p, r)
		case stateWon:
			d.sendRequest(p, r)
			d.report(p, r)
		case stateEnding:
			if r.reportEnd {
				v.sent = true
				d.sendOrdered(p, vote.Digest{}, vote.KindRelease, r.number)
			}
		}
	}
}
