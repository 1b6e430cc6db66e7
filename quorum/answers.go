package quorum

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Evidence of an answer. A request that isn't granted waits for one of two reasons: other requests
// hold the key or are queued ahead, or too few voters answer. An acknowledgement says how much of
// its stream a voter has processed; a voter that has processed the request and gives no vote has
// voted for another request. Without such evidence from a majority, the requester can't claim that
// the key is held.
//
// Acknowledgements arrive five times per TTL. While a request waits, the requester asks for them
// sooner, so that even a short call ends with the true reason.

// silentAfter is how long a voter may leave refreshes unanswered before new locks no longer count
// on the voter: a fifth of the TTL until the refresh is sent, and half as long again for its
// answer. Leases under the voter's validity aren't affected.
func silentAfter(ttl time.Duration) time.Duration { return ttl * 3 / (2 * vote.RefreshesPerTTL) }

// noteSent records that a request was sent to a voter.
func (d deliverer) noteSent(r *request) {
	r.sentAt, d.acks.lastSent = d.now.Fast, d.now.Fast
	if r.state == statePending {
		d.scheduleAcks(d.ackDelay(), ackEvery)
	}
}

// hurryAcks asks the voters in time for a caller with limited patience; zero means that the
// patience is unknown.
func (d deliverer) hurryAcks(patience time.Duration) {
	if patience > 0 && patience < 4*d.ackDelay() {
		d.scheduleAcks(patience/4, max(min(patience/4, ackEvery), ackEveryLeast))
	}
}

// scheduleAcks schedules the question to the voters after a delay.
func (d deliverer) scheduleAcks(after, every time.Duration) {
	if !d.cfg.NoReceipts {
		d.acks.schedule(d.now.Fast, after, every, len(d.pending) == 1)
	}
}

// requestAcks makes the voters acknowledge the newest requests, if any request is pending.
func (d deliverer) requestAcks() {
	if len(d.pending) == 0 || d.now.Fast < d.acks.at {
		return
	}
	every := d.acks.take()
	if !d.linked() {
		return // no request can be granted in any case
	}
	for _, p := range d.voters() {
		if p.counts() && p.refreshed <= d.acks.lastSent { // else the acknowledgement is under way
			p.refreshAt = min(p.refreshAt, max(d.now.Fast, p.refreshed.Add(every)))
		}
	}
}

// ackMark is a position in a voter's stream: the messages sent before a refresh. The refresh itself
// may overtake these messages. So the voter has passed the position once an acknowledgement says
// so, perhaps the acknowledgement of a later refresh.
type ackMark struct {
	pending bool
	at      vote.Instant
	sent    uint64
}

// set moves the mark to the end of a voter's stream, unless the voter has yet to pass the current
// mark.
func (k *ackMark) set(p *peer) {
	if !k.pending {
		*k = ackMark{true, p.refreshed, p.sent}
	}
}

// reachMark records a voter's progress from an acknowledgement. All of the voter's messages before
// the acknowledgement have arrived.
func (d deliverer) reachMark(p *peer, m *vote.Message) {
	if !p.ackMark.pending || m.Processed < p.ackMark.sent {
		return
	}
	p.acked, p.ackMark = p.ackMark.at, ackMark{}
	if p.acked <= d.acks.lastSent && len(d.pending) > 0 {
		d.scheduleAcks(d.ackDelay(), ackEvery) // another request was sent while the mark was ahead
	}
}

// hasProcessed reports whether the voter answers and has processed a request.
func (l *requestLayer) hasProcessed(p *peer, r *request) bool {
	v, x := &r.votes[p.place], r.coldOf(p.place)
	named := x != nil && x.taken != 0 // a lease that keeps the request from the key
	return l.answers(p) && (v.stands() || named || v.sent && (p.conn == vote.LocalConn || p.acked > r.sentAt))
}

// heldByOthers reports whether others are known to hold the key of a request, or to be queued
// ahead. The evidence of a single voter isn't enough while too few answer: the voter may not have
// heard of a release yet.
func (q *Requester) heldByOthers(r *request) bool {
	if r.local == localQueued {
		front := q.fronts[r.key]
		return front != nil && (front.state == stateWon || front != r && q.heldByOthers(front))
	}
	var processed Set
	others := false
	for _, p := range q.peers {
		v := &r.votes[p.place]
		if q.hasProcessed(p, r) {
			processed = processed.With(p.place)
			others = others || !v.stands() && !v.busy && v.unfit == 0
		}
	}
	return others && q.decides(processed)
}

// unanswered says which voters, among those that seem to count, haven't answered a request, and for
// how long; empty if all have answered.
func (q *Requester) unanswered(r *request) string {
	if r.local == localQueued {
		if front := q.fronts[r.key]; front != nil && front.local != localQueued {
			r = front
		}
	}
	var names []string
	least := time.Duration(0)
	for _, p := range q.voters() {
		if !p.counts() || q.isBehind(p) || q.silent(p) || !r.votes[p.place].sent || q.hasProcessed(p, r) {
			continue
		}
		if d := q.now.Fast.Sub(max(p.lastReceived, r.sentAt)); len(names) == 0 || d < least {
			least = d
		}
		names = append(names, string(p.name))
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%s hasn't answered this request for %v", names[0], roughly(least))
	}
	return fmt.Sprintf("%s haven't answered this request for %v", strings.Join(names, ", "), roughly(least))
}

// roughly rounds a duration for a human reader.
func roughly(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}

// silent reports whether a voter that seems connected has stopped answering.
func (l *sessionLayer) silent(p *peer) bool {
	return p.reachable() && p.conn != vote.LocalConn && l.now.Fast.Sub(p.lastReceived) > silentAfter(l.ttl())
}

// answers reports whether the voter answers this node and its votes count.
func (l *sessionLayer) answers(p *peer) bool { return p.counts() && !l.isBehind(p) && !l.silent(p) }

// ackDelay returns how long a request waits before the voters are asked whether they have
// processed the request.
func (l *sessionLayer) ackDelay() time.Duration { return max(ackDelayLeast, ackDelayTrips*l.far) }
