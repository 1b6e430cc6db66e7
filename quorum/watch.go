package quorum

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// watch is a standing query: the events of a key, or of all keys with a prefix.
type watch struct {
	nonce     uint64
	key       vote.Key
	prefix    bool
	positions []watchPosition // by place
	last      *query          // of InspectForWatch, once a majority has answered
}

// watchPosition is how far one voter has reported.
type watchPosition struct {
	incarnation vote.Incarnation
	seq         uint64
	retry       bool         // the voter has too many watches, and is asked again at the next refresh
	reports     uint64       // how often the voter has reported
	asked       vote.Instant // when the last question was sent
	unclear     int          // how many of the next reports may answer a question before the last
}

// unclearReports is how many reports may answer earlier questions once a question was repeated: a
// report under way, and the answer to the question that was repeated.
const unclearReports = 2

// watchOf returns the watch of a key or a prefix; nil if there is none.
func (q querier) watchOf(key vote.Key, prefix bool) *watch {
	if i := slices.IndexFunc(q.watches, func(w *watch) bool { return w.key == key && w.prefix == prefix }); i >= 0 {
		return q.watches[i]
	}
	return nil
}

// Watch asks every voter to report the events of a key, or of all keys with the prefix, from now
// on. EventNews has the unconfirmed events of one voter, under the returned number; Gap means a
// voter that reported nothing before, or forgot the events in between.
func (q *Requester) Watch(now vote.Now, key vote.Key, prefix bool) uint64 {
	q.begin(now)
	return q.querier().watch(key, prefix)
}

func (q querier) watch(key vote.Key, prefix bool) uint64 {
	w := &watch{nonce: q.nextNonce(), key: key, prefix: prefix, positions: make([]watchPosition, len(q.peers))}
	q.watches = append(q.watches, w)
	for _, p := range q.peers {
		q.sendWatch(w, p)
	}
	return w.nonce
}

// Unwatch ends a watch. A voter that misses the end sends one more event, for no watch.
func (q *Requester) Unwatch(now vote.Now, nonce uint64) {
	q.begin(now)
	q.querier().unwatch(nonce)
}

func (q querier) unwatch(nonce uint64) {
	w := q.watchByNonce(nonce)
	if w == nil {
		return
	}
	q.watches = slices.DeleteFunc(q.watches, func(o *watch) bool { return o == w })
	for _, qu := range q.queries {
		if qu.watch == w {
			qu.watch = nil
		}
	}
	for _, p := range q.peers {
		if p.up() {
			q.urgent(p, &vote.Message{Kind: vote.KindWatch, Nonce: nonce, End: true, Spec: vote.Spec{Key: w.key}, Prefix: w.prefix})
		}
	}
}

func (q querier) sendWatch(w *watch, p *peer) {
	q.spend(1)
	if p.reachable() { // otherwise the voter is asked once reachable
		at := &w.positions[p.place]
		at.retry = false
		at.asked = q.now.Fast
		q.urgent(p, &vote.Message{
			Kind: vote.KindWatch, Nonce: w.nonce, Spec: vote.Spec{Key: w.key}, Prefix: w.prefix, Incarnation: at.incarnation, Seq: at.seq,
		})
	}
}

// resendWatches repeats all watches to a voter that may have lost some with its connection.
func (q querier) resendWatches(p *peer) {
	for _, w := range q.watches {
		w.positions[p.place].unclear = unclearReports
		q.sendWatch(w, p)
	}
}

// receiveNews takes in a voter's events, and asks for the next events.
func (q querier) receiveNews(p *peer, m *vote.Message) {
	w := q.watchByNonce(m.Nonce)
	if w == nil {
		return
	}
	at := &w.positions[p.place]
	if at.incarnation == m.Incarnation && m.Seq <= at.seq && !m.Gap {
		at.retry = at.retry || len(m.Views) == 0
		return // asked twice, answered twice
	}
	// The voter may answer a question from before it was voted out, and in again; see
	// TestNewsOfAVoterThatWasVotedInAgainBeginWithAGap.
	gap := m.Gap || at.incarnation != m.Incarnation
	at.incarnation, at.seq = m.Incarnation, m.Seq
	at.reports++
	asked := at.asked
	if gap || at.unclear > 0 || isFull(m.Views) {
		asked = 0 // the voter may have more events from before the question
	}
	at.unclear = max(at.unclear-1, 0)
	if !gap && len(m.Views) == 0 {
		at.retry = true
		return
	}
	q.sendWatch(w, p)
	views, wild := q.filterViews(p, m.Views)
	views = readEach(views, (*vote.View).ReadEvent)
	e := q.emit(EventNews, 0)
	e.Nonce, e.Place, e.Gap, e.Views, e.AsOf = w.nonce, p.place, gap || wild, views, asked
}

// isFull reports whether a voter may have more view entries than fit into a message with these.
func isFull(views []vote.View) bool {
	bytes := 0
	for i := range views {
		bytes += len(views[i].Value)
	}
	return len(views) >= vote.MaxViews || bytes+vote.MaxValueLen > vote.MaxViewBytes
}

// retryWatches repeats the watches to voters that had no room for them.
func (q querier) retryWatches() {
	q.spend(len(q.watches) / scanned)
	for _, w := range q.watches {
		for _, p := range q.peers {
			if w.positions[p.place].retry {
				q.sendWatch(w, p)
			}
		}
	}
}
