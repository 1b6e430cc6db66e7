package quorum

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// MaxRequests is the limit of one node's requests under way, including held leases. A voter's limit
// for one session is the same.
const MaxRequests = 2 << 20

// Config is the configuration of a requester.
type Config struct {
	Self vote.SessionID
	// The fixed electorate; or the newest known electorate of a dynamic membership, perhaps none
	// yet.
	Electorate vote.Electorate
	Dynamic    bool
	TTL        time.Duration // of the session at each voter
	// The mesh's maximum TTL, for which a restarted voter is quiet. Zero means TTL.
	MaxTTL time.Duration
	// Each request goes to the voters, and no lease is handed off locally; for comparison.
	NoLocalQueue bool
	// No request is deferred; see hedge.go. For an exhaustive search, in which a deferred request
	// is the same as late messages.
	BroadcastAll bool
	// Voters aren't told about the answers received, nor asked for early acknowledgements; see
	// receipts.go. For an exhaustive search, since such messages would multiply its states.
	NoReceipts bool
	// EventRenewed reports each answer to a refresh.
	ReportRenewals bool
	// How much work in pieces is done in a Tick, in units of lease.Budget. Zero means the usual
	// amount; tests use less.
	TickBudget int
}

// Requester requests keys from the voters. Its zero value is not usable; see New.
type Requester struct {
	leaseLayer
	localQueues
	ackSchedule ackSchedule
	timeLimits
	hedges
	queryTable
}

// New returns a requester without a connection to any voter yet.
func New(cfg Config, now vote.Now) *Requester {
	q := &Requester{
		leaseLayer: leaseLayer{
			requestLayer: requestLayer{
				sessionLayer: sessionLayer{
					cfg: cfg, now: now, meter: meter{perTick: cfg.TickBudget},
					peerList: peerList{self: cfg.Self.Node, distances: distances{keepsOrder: cfg.BroadcastAll}},
				},
				requestTable: newRequestTable(),
			},
			leaseGroups: leaseGroups{
				endsNext: earliest{at: vote.Never}, lengths: lengthList{next: earliest{at: vote.Never}},
				renewals: renewals{report: cfg.ReportRenewals},
			},
		},
		localQueues: localQueues{fronts: make(map[vote.Key]*request), queues: make(map[vote.Key]*localQueue)},
		queryTable:  queryTable{queriesDue: vote.Never},
	}
	q.setConfig(cfg.Electorate, vote.Electorate{})
	q.refreshAt = now.Fast.Add(q.every())
	q.ackSchedule.reset()
	return q
}

// Lock requests a key. The outcome is an event: granted, or failed (a TryLock, or voters refuse).
func (q *Requester) Lock(now vote.Now, ask RequestOptions) (vote.Number, error) {
	q.begin(now)
	if len(q.requests) >= MaxRequests {
		return 0, ErrBusy
	}
	q.count.Requests++
	q.spend(costAsked)
	r := q.create(len(q.peers))
	n := r.number
	r.key, r.mode, r.try = ask.Key, max(ask.Mode, vote.Exclusive), ask.Try
	r.time, r.since = q.stamps.stamp(q.now.Wall), q.now.Fast
	if !ask.simple() {
		x := q.coldOf(r)
		x.opts = ask
		if s := q.aliases[ask.Beside]; s != nil {
			x.opts.Beside = s.number
		}
		if len(ask.Value) > 0 {
			x.version = 1
		}
		if ask.Beside != 0 && ask.EndsAfter > 0 {
			x.ends = q.now.Fast.Add(ask.EndsAfter) // an upgrade doesn't move the end of the lease
		}
	}
	if q.enqueueLocal(r) {
		q.evaluateQueued(r)
		q.deliverer().hurryAcks(ask.Patience)
		return n, nil
	}
	if r.try {
		q.expect(&q.trying, r, func(n vote.Number) bool { return !q.isPending(n) })
	}
	q.deliverer().submit(r)
	q.evaluate(r)
	q.deliverer().hurryAcks(ask.Patience)
	return n, nil
}

// evaluateQueued fails a locally queued request at once if the voters' refusals leave no majority.
func (q *Requester) evaluateQueued(r *request) {
	if r.local == localQueued {
		q.evaluate(r)
	}
}

// submit sends a request to the voters, and may defer the request to some of them.
func (d deliverer) submit(r *request) {
	r.newestAtSend = d.last
	r.tokenHint = d.stamps.tokenHint(d.now.Wall)
	first := d.newest.all
	if r.queueable() && !d.cfg.BroadcastAll {
		if few := d.nearestMajority(d.counting()); few != ^Set(0) {
			first &= few
			d.hedge(r)
		}
	}
	for _, p := range d.peers {
		if first.Has(p.place) && p.up() {
			d.sendRequest(p, r)
		}
	}
}

// Release ends a request, pending or won. EventReleased reports the confirmation by a majority, or
// that there was none within a TTL; handing a lease off to the next local caller needs none.
func (q *Requester) Release(now vote.Now, n vote.Number) { q.release(now, n, false) }

// Lapse is Release for a lease that its holder considers lost: the consequences of a loss follow,
// such as the lock delay.
func (q *Requester) Lapse(now vote.Now, n vote.Number) { q.release(now, n, true) }

func (q *Requester) release(now vote.Now, n vote.Number, lost bool) {
	q.begin(now)
	r := q.find(n)
	if r == nil || r.state == stateEnding || !lost && q.handOff(r) {
		return
	}
	r.reportEnd = true
	q.end(r, lost)
	q.settleEnd(r)
}

// end stops counting the votes of a request and tells the voters that the request is over; lost
// marks a lease that ended without a release by its holder.
func (q *Requester) end(r *request, lost bool) {
	q.beforeChange(r)
	q.spend(costEnded)
	q.leaveLocalQueue(r)
	if r.state == statePending {
		q.leavePending(r)
	}
	var hint vote.Token
	if r.contended {
		// Hints of requests that waited for long are out of date, and each voter would propose a
		// token of its own.
		hint = q.stamps.tokenHint(q.now.Wall)
	}
	first := ^Set(0)
	if r.state == stateWon && !lost && q.isUncontended(r) {
		first = q.nearestMajority(r.voters())
	}
	r.become(stateEnding)
	q.lengths.stop(r)
	q.ungroup(r)
	for _, p := range q.peers {
		v := &r.votes[p.place]
		if p.up() && v.sent {
			gone := vote.DigestOfRequest(r.number)
			x := q.coldVote(r, p.place)
			x.relSerial = 0
			// Before the sync is answered, the expected digest counts no votes.
			if v.stands() && p.answeredAbout(r) {
				gone = gone.Plus(vote.DigestOfVote(v.serial))
				x.relSerial = v.serial
			}
			m := q.sendOrdered(p, vote.Digest{}.Minus(gone), vote.KindRelease, r.number)
			m.Lost, m.TokenHint = lost, hint
			if !first.Has(p.place) {
				q.later(p)
			}
			x.relStream, x.relAt = p.stream, p.sent
		}
		r.drop(p.place)
	}
	q.noteRelease(r)
	q.expect(&q.ending, r, func(n vote.Number) bool { return q.requests[n] == nil })
}

// receiveReleased takes in a voter's confirmation that no trace of a request is left there.
func (d deliverer) receiveReleased(p *peer, r *request) {
	r.votes[p.place].released = true
	d.measureRelease(r)
	d.settleEnd(r)
}

// settleEnd reports a release once a majority has confirmed, or every voter that was sent the
// request, and forgets the request once all these voters have confirmed.
func (l *requestLayer) settleEnd(r *request) {
	done, all := r.released(), true
	for i := range r.votes {
		all = all && (!r.votes[i].sent || done.Has(i))
	}
	if r.reportEnd && (all || l.newest.Decides(done)) {
		r.reportEnd = false
		l.emit(EventReleased, r.caller)
	}
	if all {
		l.forget(r)
	}
}

// forget drops a request that is over.
func (l *requestLayer) forget(r *request) {
	l.removeRequest(r)
	l.dropAlias(r)
	l.recycle(r)
}

// giveUp stops waiting for confirmations. The sessions with the request have ended by now, or will
// end without a confirmation.
func (l *requestLayer) giveUp(r *request) {
	l.spend(1)
	if r.reportEnd {
		done := r.released()
		var missing []string
		for _, p := range l.voters() {
			if !done.Has(p.place) {
				missing = append(missing, p.state(l.now, l.isBornByCount()).String())
			}
		}
		l.emit(EventReleased, r.caller).Wait = Wait{WaitNoQuorum, fmt.Sprintf(
			"%d of %d voters confirmed the release; not confirmed: %s", (done & l.newest.All()).Len(), l.newest.Size(), strings.Join(missing, ", "))}
	}
	l.forget(r)
}

// fail ends a request that can't be granted.
func (q *Requester) fail(r *request, reason WaitReason) {
	wait := q.describeWait(r, reason)
	q.emit(EventFailed, r.caller).Wait = wait
	q.end(r, false)
	q.settleEnd(r)
}

// begin records the time, which never goes back, and expires leases.
func (q *Requester) begin(now vote.Now) {
	now.Fast = max(now.Fast, q.now.Fast)
	q.now = now
	q.expire()
}

// Tick handles the passage of time: sessions are refreshed, leases end, and silent voters are
// disconnected, to be dialed anew.
func (q *Requester) Tick(now vote.Now) {
	q.begin(now)
	if q.now.Fast >= q.refreshAt {
		q.refreshAt = q.now.Fast.Add(q.every())
		for _, p := range q.peers {
			q.refresh(p)
		}
		q.raiseTokenAlarms()
		q.unbar()
		q.deliverer().retryRejected()
		q.querier().retryWatches()
	}
	q.deliverer().sendDueHedges()
	q.deliverer().requestAcks()
	q.extendDue()
	q.querier().endQueries()
	q.forgetBefore()
	for _, p := range q.peers {
		if p.refreshAt <= q.now.Fast {
			q.refresh(p)
		}
		if p.syncBuilder != nil || p.answerReader != nil {
			continue // this node is to blame
		}
		if p.up() && p.conn != vote.LocalConn && q.now.Fast >= p.lastReceived.Add(q.patience(p)) {
			if p.notVoterYet {
				// The peer answers, but isn't a voter yet. Without lasting connections no majority
				// would have direct contact with the peer, and it would never be voted in (seed
				// 106828475).
				p.lastReceived = q.now.Fast
				q.resync(p)
				continue
			}
			q.sendFinalRefresh(p)
			q.hangUp(p, fmt.Sprintf("no answer for %v", q.now.Fast.Sub(p.lastReceived).Round(time.Millisecond)))
		}
	}
	for q.trying.len() > 0 && (q.trying.first().at <= q.now.Fast || !q.isPending(q.trying.first().number)) {
		n := q.trying.first().number
		q.trying.pop()
		if q.isPending(n) {
			r := q.requests[n]
			q.fail(r, q.waitReason(r))
		}
	}
	for q.ending.len() > 0 && (q.ending.first().at <= q.now.Fast || q.requests[q.ending.first().number] == nil) {
		if r := q.requests[q.ending.first().number]; r != nil {
			q.giveUp(r)
		}
		q.ending.pop()
	}
	if q.Busy() {
		q.continueWork()
	}
}

// Next returns the instant of the fast clock at which Tick has something to do next.
func (q *Requester) Next() vote.Instant {
	if q.Busy() {
		return q.now.Fast
	}
	next := min(q.refreshAt, q.beforeEnds(), q.firstEnd(), q.lengths.first(&q.meter))
	if len(q.pending) > 0 {
		next = min(next, q.ackSchedule.at)
	}
	for _, p := range q.peers {
		next = min(next, p.refreshAt)
		if p.up() && p.conn != vote.LocalConn {
			// The voter's silence then shows in Ready and Voters.
			if at := p.lastReceived.Add(silentAfter(q.ttl())) + 1; at > q.now.Fast {
				next = min(next, at)
			}
			next = min(next, p.lastReceived.Add(q.patience(p)))
		}
	}
	next = min(next, q.queriesDue)
	if s := q.firstHedged(); s != nil {
		next = min(next, s.at)
	}
	return min(next, q.firstLimit())
}

// PendingReason returns the reason why a pending request isn't granted.
func (q *Requester) PendingReason(now vote.Now, n vote.Number) Wait {
	q.now.Fast = max(q.now.Fast, now.Fast)
	r := q.find(n)
	if r == nil || r.state != statePending {
		return Wait{}
	}
	return q.describeWait(r, q.waitReason(r))
}

// describeWait describes why a request waits or fails, in numbers.
func (q *Requester) describeWait(r *request, reason WaitReason) Wait {
	switch reason {
	case WaitUnfit:
		others := uint16(0)
		for i := range r.votes {
			others = max(others, r.votes[i].unfit)
		}
		return Wait{reason, fmt.Sprintf("%d permits are asked for here, while others use %d; all must agree", r.spec(q.now.Fast).Permits, others)}
	case WaitClash:
		return Wait{reason, "an older upgrade of the same key waits for this lease to end"}
	case WaitNoQuorum:
		if text := q.unanswered(r); text != "" {
			return Wait{reason, q.describeVoters() + "; " + text}
		}
	}
	return Wait{reason, q.describeVoters()}
}

func (q *Requester) waitReason(r *request) WaitReason {
	var refusing, busy, unfit Set
	for _, p := range q.peers {
		if p.refused != vote.ReasonNone {
			refusing = refusing.With(p.place)
		}
		if r.votes[p.place].busy {
			busy = busy.With(p.place)
		}
		if r.votes[p.place].unfit != 0 {
			unfit = unfit.With(p.place)
		}
	}
	e := q.newest
	switch {
	case !e.Known():
		return WaitNoQuorum
	case !e.Decides(e.All() &^ refusing):
		return WaitRefused
	case q.knowsHeld(r.taken()):
		return WaitHeld
	case !e.Decides(e.All() &^ unfit):
		return WaitUnfit
	case !e.Decides(e.All() &^ busy):
		return WaitBusy
	case q.heldByOthers(r):
		return WaitHeld
	default:
		return WaitNoQuorum
	}
}
