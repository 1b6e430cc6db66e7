package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// QueryResult is the view of a majority of the voters on a key, or on all keys with a prefix.
type QueryResult struct {
	Permits uint16
	// The view entries of each key, in order of the keys' names: held leases and then residual
	// votes, by token; then promised and waiting requests, by stamp. A promised or waiting request
	// has the largest Token confirmed or proposed by a voter.
	Views []vote.View
	// Leases reported as held by some voter and left out of Views, since a newer lease contradicts
	// them.
	Superseded []vote.View
	HeldBy     []Set // for each of Views, the voters that report a held lease
	// Of an inspection, for each of Views: the request isn't known to be a held lease, but may be.
	// The voters with the answer are out of reach, as after the crash of a node that was a voter
	// and a holder, and had told no other voter of its grant yet.
	Unsure    []bool
	Truncated bool // more keys exist than shown; nothing is known of keys beyond Last
	Certain   bool // of an inspection: the holders of the key are certain
	Last      vote.Key
	Began     vote.Instant // when the query began
}

// query is a query about a key to all voters: who holds the key and who waits for it; or a revoke
// request.
type query struct {
	nonce uint64
	// The nonce of the newest question to each voter, by place. The rest of an answer to an older
	// question isn't part of the newest answer.
	nonces   []uint64
	question vote.Message
	kind     EventKind    // of the answer
	deadline vote.Instant // when the query ends without an answer
	queued   bool         // not sent to the voters yet; see maxPrefixQueries
	answers  []vote.Message
	asked    Set
	complete Set    // the voters with complete answers
	decided  bool   // a majority has answered, though an inspection may ask again
	spans    []span // by place: the time for which each answer speaks
	// The largest number of holders that a voter has notified of a revoke request.
	notified uint64

	inspection *inspection // nil for a plain query

	began vote.Instant

	// Of InspectForWatch: the watch, and by place how many reports to the watch had arrived when
	// the voter was asked.
	watch   *watch
	reports []uint64
}

// span is a time, by this node's fast clock, during which a voter has taken back no vote of a
// continuing lease. A vote missing from the voter's answer was missing throughout that time.
type span struct{ from, to vote.Instant }

// ask begins a query.
func (q *Requester) ask(now vote.Now, kind EventKind, m vote.Message, in *inspection) uint64 {
	q.begin(now)
	return q.querier().add(kind, m, in)
}

// Query asks the voters who holds a key and who waits for it. EventQueryDone has the answer within
// a TTL, under the returned number.
func (q *Requester) Query(now vote.Now, key vote.Key) uint64 {
	return q.ask(now, EventQueryDone, vote.Message{Kind: vote.KindQuery, Spec: vote.Spec{Key: key}}, nil)
}

// Inspect does the same as Query, and repeats the query while the answers leave open who holds the
// key: see inspection.
func (q *Requester) Inspect(now vote.Now, key vote.Key) uint64 {
	return q.ask(now, EventQueryDone, vote.Message{Kind: vote.KindQuery, Spec: vote.Spec{Key: key}}, &inspection{pause: inspectPause})
}

// Page does the same as Inspect for about as many keys as most, with the given prefix and with
// names after a given key. QueryResult.Truncated is set if there are more keys; they come after
// QueryResult.Last.
func (q *Requester) Page(now vote.Now, prefix, after vote.Key, most int) uint64 {
	ask := vote.Message{Kind: vote.KindQuery, Spec: vote.Spec{Key: prefix}, Prefix: true, Value: []byte(after), Count: uint64(most)}
	return q.ask(now, EventQueryDone, ask, &inspection{pause: inspectPause})
}

// InspectForWatch does the same as Inspect for a key, or for all keys with a prefix, and shows a
// request as held only once a voter has heard of the grant. For each voter known to have reported
// all events from before the query to the watch of that key or prefix, EventNews says so by AsOf.
func (q *Requester) InspectForWatch(now vote.Now, key vote.Key, prefix bool) uint64 {
	ask := vote.Message{Kind: vote.KindQuery, Spec: vote.Spec{Key: key}, Prefix: prefix}
	return q.ask(now, EventQueryDone, ask, &inspection{pause: inspectPause, heard: true})
}

// Revoke asks the holders of a key to give it back. EventRevokeForwarded reports within a TTL that
// a majority of the voters has passed the revoke request on.
func (q *Requester) Revoke(now vote.Now, key vote.Key, reason string) uint64 {
	return q.ask(now, EventRevokeForwarded, vote.Message{Kind: vote.KindRevoke, Spec: vote.Spec{Key: key}, Text: reason}, nil)
}

// Evict makes the node with a key's lease of the given token end the lease. EventRevokeForwarded
// reports within a TTL that a majority of the voters has passed the demand on.
func (q *Requester) Evict(now vote.Now, key vote.Key, token vote.Token, reason string) uint64 {
	return q.ask(now, EventRevokeForwarded, vote.Message{Kind: vote.KindRevoke, Spec: vote.Spec{Key: key}, Token: token, Text: reason}, nil)
}

// maxPrefixQueries is how many prefix queries are sent to the voters at once. Each may have an
// answer of megabytes in the queues of connections; further queries wait here for their turn, and
// have a TTL from then on.
const maxPrefixQueries = 4

// queryTable has the queries and the watches of a node. Both are in order of their nonces.
type queryTable struct {
	queries    []*query     // queries under way, or waiting for their turn
	queriesDue vote.Instant // no query times out or is repeated before then
	watches    []*watch
	nonce      uint64 // the newest
}

// nextNonce returns a new nonce.
func (t *queryTable) nextNonce() uint64 {
	t.nonce++
	return t.nonce
}

// queryByNonce returns the query of a nonce; nil if the query is over.
func (t *queryTable) queryByNonce(nonce uint64) *query {
	at, ok := slices.BinarySearchFunc(t.queries, nonce, func(qu *query, n uint64) int { return cmp.Compare(qu.nonce, n) })
	if !ok {
		return nil
	}
	return t.queries[at]
}

// watchByNonce returns the watch of a nonce; nil if the watch is over.
func (t *queryTable) watchByNonce(nonce uint64) *watch {
	at, ok := slices.BinarySearchFunc(t.watches, nonce, func(w *watch, n uint64) int { return cmp.Compare(w.nonce, n) })
	if !ok {
		return nil
	}
	return t.watches[at]
}

// move moves what the queries and the watches know of each voter to the voters' new places, of
// which there are n.
func (t *queryTable) move(n int, to []int) {
	for _, qu := range t.queries {
		shown, nonces, spans := make([]vote.Message, n), make([]uint64, n), make([]span, n)
		movePlaces(shown, qu.answers, to)
		movePlaces(nonces, qu.nonces, to)
		movePlaces(spans, qu.spans, to)
		qu.nonces, qu.spans = nonces, spans
		qu.answers, qu.asked, qu.complete = shown, qu.asked.Moved(to), qu.complete.Moved(to)
		if qu.watch != nil {
			reports := make([]uint64, n)
			movePlaces(reports, qu.reports, to)
			qu.reports = reports
		}
	}
	for _, w := range t.watches {
		at := make([]watchPosition, n)
		movePlaces(at, w.positions, to)
		w.positions, w.last = at, nil
	}
}

func (q querier) add(kind EventKind, m vote.Message, in *inspection) uint64 {
	qu := &query{nonce: q.nextNonce(), question: m, kind: kind, deadline: vote.Never, queued: true, inspection: in, began: q.now.Fast}
	qu.answers, qu.nonces, qu.spans = make([]vote.Message, len(q.peers)), make([]uint64, len(q.peers)), make([]span, len(q.peers))
	if in != nil && in.heard {
		qu.watch, qu.reports = q.watchOf(m.Key, m.Prefix), make([]uint64, len(q.peers))
	}
	q.queries = append(q.queries, qu)
	q.startQueries()
	return qu.nonce
}

// startQueries sends the waiting queries to the voters, as far as maxPrefixQueries allows.
func (q querier) startQueries() {
	prefixes := 0
	for _, qu := range q.queries {
		if qu.question.Prefix && !qu.queued {
			prefixes++
		}
	}
	for _, qu := range q.queries {
		if !qu.queued || qu.question.Prefix && prefixes >= maxPrefixQueries {
			continue
		}
		if qu.question.Prefix {
			prefixes++
		}
		qu.queued, qu.deadline = false, q.now.Fast.Add(q.cfg.TTL)
		q.queriesDue = min(q.queriesDue, qu.deadline)
		for _, p := range q.peers {
			if q.newest.all.Has(p.place) && p.reachable() {
				q.sendQuery(qu, p)
			}
		}
	}
}

func (q querier) sendQuery(qu *query, p *peer) {
	nonce := qu.nonce
	// Parts of the earlier answer may still arrive, or have arrived already, so a new nonce is
	// needed.
	if (qu.question.Prefix || qu.inspection != nil) && qu.asked.Has(p.place) {
		nonce = q.nextNonce()
	}
	qu.asked = qu.asked.With(p.place)
	qu.answers[p.place], qu.nonces[p.place] = vote.Message{}, nonce
	qu.spans[p.place].to = q.now.Fast // the answer is from a later moment
	if qu.watch != nil {
		qu.reports[p.place] = qu.watch.positions[p.place].reports
	}
	m := qu.question
	m.Nonce = nonce
	q.urgent(p, &m)
}

// resendQueries repeats the queries that a voter hasn't answered: the voter wasn't reachable, was
// quiet, or may have lost the question with its connection. Revoke requests aren't repeated: a
// voter notifies holders only once.
func (q querier) resendQueries(p *peer) {
	for _, qu := range q.queries {
		if !qu.queued && (qu.question.Kind == vote.KindQuery || !qu.asked.Has(p.place)) && !qu.complete.Has(p.place) && q.newest.all.Has(p.place) {
			q.sendQuery(qu, p)
		}
	}
}

// receiveResult takes in a voter's answer to a query or a revoke request. A quiet voter may have
// forgotten its promises, so its answer doesn't count.
func (q querier) receiveResult(p *peer, m *vote.Message) {
	qu := q.queryOf(p, m.Nonce)
	if qu == nil {
		q.receiveLateResult(p, m)
		return
	}
	if !p.counts() || (m.Kind == vote.KindRevokeForwarded) != (qu.kind == EventRevokeForwarded) || qu.complete.Has(p.place) ||
		len(qu.answers[p.place].Views)+len(m.Views) > MaxRequests {
		return
	}
	views, _ := q.filterViews(p, m.Views)
	views = readEach(views, (*vote.View).ReadState)
	qu.answers[p.place].Views = append(qu.answers[p.place].Views, views...)
	if m.Kind == vote.KindQueryResult && !m.End {
		return
	}
	qu.answers[p.place].Permits, qu.answers[p.place].Gap = m.Permits, m.Gap
	qu.notified = max(qu.notified, m.Count)
	qu.complete = qu.complete.With(p.place)
	q.noteDelivered(qu, p)
	sortByKey(qu.answers[p.place].Views)
	// The eighth allows for clocks of different rates.
	qu.spans[p.place].from = q.now.Fast.Add(-m.TTL + m.TTL/8)
	q.settleQuery(qu)
}

// noteDelivered tells the shell if a voter's answer to a query shows that the voter had reported
// all events from before the query to the watch. The voter handled the watch's question before the
// query: either the voter answered the question, and this report would have come before the answer
// to the query, or the question waits, and there was nothing left to report.
func (q querier) noteDelivered(qu *query, p *peer) {
	if qu.watch == nil {
		return
	}
	if at := &qu.watch.positions[p.place]; at.incarnation == p.incarnation && !at.retry && at.reports == qu.reports[p.place] {
		e := q.emit(EventNews, 0)
		e.Nonce, e.Place, e.AsOf = qu.watch.nonce, p.place, qu.began
	}
}

// receiveLateResult takes in the answer of a voter to a watch's last query, which a majority has
// answered before.
func (q querier) receiveLateResult(p *peer, m *vote.Message) {
	if m.Kind != vote.KindQueryResult || !m.End || !p.counts() {
		return
	}
	for _, w := range q.watches {
		if qu := w.last; qu != nil && qu.nonces[p.place] == m.Nonce {
			q.noteDelivered(qu, p)
			return
		}
	}
}

// Unanswered describes the progress of a query, and names the voters yet to answer. The text is
// empty once the query is over, and once a majority has answered: an inspection may go on after
// that, but not for want of voters.
func (q *Requester) Unanswered(now vote.Now, nonce uint64) string {
	q.begin(now)
	return q.querier().unanswered(nonce)
}

func (q querier) unanswered(nonce uint64) string {
	qu := q.queryByNonce(nonce)
	if qu == nil || qu.decided {
		return ""
	}
	var silent []string
	for _, p := range q.voters() {
		if q.newest.all.Has(p.place) && !qu.complete.Has(p.place) {
			silent = append(silent, q.stateOf(p, q.now).String())
		}
	}
	return fmt.Sprintf("%d of %d voters have answered; not yet: %s",
		(qu.complete & q.newest.All()).Len(), q.newest.Size(), strings.Join(silent, ", "))
}

// queryOf returns the query by the nonce of its newest question to a voter; nil if the query is
// over.
func (q querier) queryOf(p *peer, nonce uint64) *query {
	if qu := q.queryByNonce(nonce); qu != nil && qu.nonces[p.place] == nonce {
		return qu
	}
	// The voter was asked again, under another nonce.
	i := slices.IndexFunc(q.queries, func(qu *query) bool { return qu.nonces[p.place] == nonce })
	if i < 0 {
		return nil
	}
	return q.queries[i]
}

// settleQuery ends a query or a revoke request once a majority has answered.
func (q querier) settleQuery(qu *query) {
	if !q.newest.Decides(qu.complete) {
		return
	}
	qu.decided = true
	var result *QueryResult
	if qu.kind == EventQueryDone {
		var open bool
		if result, open = q.merge(qu); open && q.retryInspection(qu.inspection, len(result.Views)+len(result.Superseded)) {
			return
		}
	}
	q.queries = slices.DeleteFunc(q.queries, func(o *query) bool { return o == qu })
	q.startQueries()
	if result != nil {
		result.Began = qu.began
	}
	if qu.watch != nil {
		qu.answers, qu.inspection = nil, nil // nothing but the voters' late answers is awaited
		qu.watch.last = qu
	}
	e := q.emit(qu.kind, 0)
	e.Nonce, e.Count, e.Result = qu.nonce, qu.notified, result
}

// settleAll ends the queries with answers from a majority: of a smaller electorate, these may be
// enough.
func (q querier) settleAll() {
	for _, qu := range slices.Clone(q.queries) {
		q.settleQuery(qu)
	}
}

// endQueries ends the queries without timely answers from a majority, and repeats the inspections
// due now.
func (q querier) endQueries() {
	if q.queriesDue > q.now.Fast {
		return
	}
	q.queriesDue = vote.Never
	q.retryInspections()
	q.queries = slices.DeleteFunc(q.queries, func(qu *query) bool {
		if qu.deadline > q.now.Fast {
			q.queriesDue = min(q.queriesDue, qu.deadline)
			return false
		}
		e := q.emit(qu.kind, 0)
		e.Nonce, e.Wait = qu.nonce, Wait{WaitNoQuorum, q.describeVoters()}
		return true
	})
	q.startQueries()
}
