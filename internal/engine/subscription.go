package engine

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/errs"
	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/watchmerge"
	"github.com/lockmesh/lockmesh/quorum"
)

// subscription is the shared subscription to a topic, for all subscribers of this node: the voters
// send each event to the node once, and are queried once, however many subscribers there are. The
// subscription's merger makes one stream of events from the voters' reports.
type subscription struct {
	topic       Topic
	nonce       uint64 // identifies the node's watch
	merger      *watchmerge.Merger
	subscribers []*Subscriber
	// subscribers waiting, in order, for a query begun after their own begin, so that the initial
	// state is as new as the subscriber
	waiting []*Subscriber
	joining bool // a waiting subscriber is about to join the subscribers
	// the requests of the last view that may be leases or not, and since when that has been open
	unsure map[unsureRequest]vote.Instant
}

// unsureRequest names a request of which a view leaves open whether it is a lease.
type unsureRequest struct {
	owner  vote.SessionID
	number vote.Number
}

// Topic is the subject of a watch: a key, or all keys with a prefix.
type Topic struct {
	Key    vote.Key
	Prefix bool
}

// Subscriber receives the events of a topic. The caller of Subscribe sets Topic and Put, and the
// loop owns the Subscriber from then on.
type Subscriber struct {
	Topic Topic
	// Put takes events. The loop calls Put, which must not block.
	Put func([]watchmerge.Event)

	subscription *subscription
	// while the subscriber waits for a query: the number of the subscription's queries before
	queriesAtStart uint64
}

// ErrFull is the error of a watch too many.
var ErrFull = errors.New("too many watches")

// Subscribe attaches a subscriber to its topic, and starts the subscriber's goroutine, run, for
// which Close waits. It fails with ErrFull, or as any call does.
func (eng *Engine) Subscribe(w *Subscriber, run func()) error {
	begun := make(chan error, 1)
	if err := eng.loop.box.putCall(func(now vote.Now) { begun <- eng.loop.subscribe(now, w, run) }); err != nil {
		return err
	}
	select {
	case err := <-begun:
		return err
	case <-eng.loop.done:
		return errs.Closed
	}
}

// Unsubscribe ends a subscription.
func (eng *Engine) Unsubscribe(w *Subscriber) {
	eng.loop.box.post(false, func(now vote.Now) { eng.loop.unsubscribe(now, w) })
}

// Requery has the voters queried once more for the state of a subscriber's topic, in case a report
// was missed.
func (eng *Engine) Requery(w *Subscriber) {
	eng.loop.box.post(false, func(now vote.Now) { eng.loop.requery(now, w) })
}

// SendState passes the state of a subscriber's topic to f as events, the gap at the beginning
// included. The loop calls f, which must not block.
func (eng *Engine) SendState(w *Subscriber, f func(state []watchmerge.Event)) {
	eng.loop.box.post(false, func(now vote.Now) { f(eng.loop.stateOf(now, w)) })
}

// subscribe attaches a subscriber to the subscription of its topic. The loop starts the
// subscriber's goroutine, run, so that Close doesn't miss the goroutine.
func (l *loop) subscribe(now vote.Now, w *Subscriber, run func()) error {
	if l.watches >= l.engine.cfg.Limits.Watches {
		return ErrFull
	}
	s := l.subscriptions[w.Topic]
	if s == nil {
		s = &subscription{topic: w.Topic, merger: watchmerge.New(l.node.Electorate()), subscribers: []*Subscriber{w}}
		s.nonce = l.node.Watch(now, w.Topic.Key, w.Topic.Prefix)
		l.subscriptions[w.Topic], l.subscriptionsByNonce[s.nonce] = s, s
	} else {
		w.queriesAtStart = s.merger.Queries()
		s.waiting = append(s.waiting, w)
		s.merger.Requery()
		l.publish(now, s)
	}
	w.subscription = s
	l.watches++
	l.engine.work.Go(run)
	return nil
}

// unsubscribe ends a subscription of one subscriber.
func (l *loop) unsubscribe(now vote.Now, w *Subscriber) {
	s := w.subscription
	is := func(o *Subscriber) bool { return o == w }
	s.subscribers, s.waiting = slices.DeleteFunc(s.subscribers, is), slices.DeleteFunc(s.waiting, is)
	l.watches--
	if len(s.subscribers)+len(s.waiting) == 0 {
		l.node.Unwatch(now, s.nonce)
		delete(l.subscriptionsByNonce, s.nonce)
		delete(l.subscriptions, s.topic)
	}
}

// stateOf returns the state of a subscriber's topic as events, the gap at the beginning included.
func (l *loop) stateOf(now vote.Now, w *Subscriber) []watchmerge.Event {
	state := w.subscription.merger.State(now.Wall)
	l.node.Spend(len(state))
	return state
}

func (l *loop) receiveNews(now vote.Now, e *quorum.Event) {
	if s := l.subscriptionsByNonce[e.Nonce]; s != nil {
		s.merger.AddReports(now.Wall, e.Place, e.Gap, e.Views, e.AsOf)
		l.publish(now, s)
	}
}

// watchQuery is the purpose of a query: the state of a whole topic, or of a key in doubt.
type watchQuery struct {
	subscription *subscription
	doubt        *watchmerge.Doubt
}

func (l *loop) receiveResult(now vote.Now, e *quorum.Event) {
	p := l.watchQueries[e.Nonce]
	delete(l.watchQueries, e.Nonce)
	switch s := p.subscription; {
	case s == nil || l.subscriptionsByNonce[s.nonce] != s:
		return
	case p.doubt != nil:
		s.merger.AddKeyResult(now.Wall, *p.doubt, e.Result)
	case s.waitsForSurety(now, e.Result, l.engine.longestTTL()):
		s.merger.AddResult(now.Wall, nil) // has the voters queried again
	default:
		s.merger.AddResult(now.Wall, e.Result)
	}
	l.publish(now, p.subscription)
}

// waitsForSurety reports whether a view can't be the first state of a watch, since the view leaves
// open whether a request is a lease from before the query: the request has votes, and none of the
// voters that answered has heard of a grant. The voters keep the key until such a lease must be
// over, and then the view leaves nothing open. A request still open after longestTTL is no lease
// from before: its node is in touch with a voter, which would have heard of the grant. So a request
// that waits for long doesn't hold up the watch. A state that no watch waits for is never withheld.
func (s *subscription) waitsForSurety(now vote.Now, r *quorum.QueryResult, longestTTL time.Duration) (waits bool) {
	if r == nil {
		return false // a failed query says nothing
	}
	before := s.unsure
	s.unsure = nil
	for i := range r.Unsure {
		if !r.Unsure[i] {
			continue
		}
		if s.unsure == nil {
			s.unsure = make(map[unsureRequest]vote.Instant)
		}
		id := unsureRequest{r.Views[i].Owner, r.Views[i].Number}
		since, known := before[id]
		if !known {
			since = now.Slow
		}
		s.unsure[id] = since
		waits = waits || now.Slow.Sub(since) <= longestTTL
	}
	return waits && (!s.merger.Synced() || len(s.waiting) > 0)
}

// maxDoubts is how many keys in doubt are queried in a [watchmerge.DoubtPause], for all
// subscriptions together.
const maxDoubts = 64

// queryDoubts queries the keys in doubt when their time has come. It begins after the subscription
// at which it ended the last time.
func (l *loop) queryDoubts(now vote.Now) {
	if l.doubtsDue == 0 || now.Slow < l.doubtsDue {
		return
	}
	l.doubtsDue = 0
	var doubted []*subscription
	for _, s := range l.subscriptionsByNonce { // in any order
		if s.merger.InDoubt() {
			doubted = append(doubted, s)
		}
	}
	slices.SortFunc(doubted, func(a, b *subscription) int { return cmp.Compare(a.nonce, b.nonce) })
	at, _ := slices.BinarySearchFunc(doubted, l.lastDoubtNonce+1, func(s *subscription, nonce uint64) int { return cmp.Compare(s.nonce, nonce) })
	left := maxDoubts
	for _, s := range slices.Concat(doubted[at:], doubted[:at]) {
		if left == 0 {
			break
		}
		doubts := s.merger.Doubts(now.Wall, left)
		for i := range doubts {
			l.watchQueries[l.node.Query(now, doubts[i].Key)] = watchQuery{subscription: s, doubt: &doubts[i]}
		}
		left -= len(doubts)
		l.lastDoubtNonce = s.nonce
		l.publish(now, s)
	}
	l.scheduleDoubts(now, len(doubted) > 0)
}

// scheduleDoubts schedules a query of the keys in doubt.
func (l *loop) scheduleDoubts(now vote.Now, doubt bool) {
	if doubt && l.doubtsDue == 0 {
		l.doubtsDue = now.Slow.Add(watchmerge.DoubtPause)
	}
}

// publish passes new events to the subscribers, begins the watch anew after a gap, and queries the
// voters if the merger wants this.
// The query is an inspection, so that a new watch begins with each lease that was granted before.
func (l *loop) publish(now vote.Now, s *subscription) {
	if s.merger.WantsRestart() {
		l.node.Unwatch(now, s.nonce)
		delete(l.subscriptionsByNonce, s.nonce)
		s.nonce = l.node.Watch(now, s.topic.Key, s.topic.Prefix)
		l.subscriptionsByNonce[s.nonce] = s
		// The query under way is older than the gap.
		maps.DeleteFunc(l.watchQueries, func(_ uint64, q watchQuery) bool { return q.subscription == s && q.doubt == nil })
	}
	if s.merger.WantsQuery() {
		nonce := l.node.InspectForWatch(now, s.topic.Key, s.topic.Prefix)
		l.watchQueries[nonce] = watchQuery{subscription: s}
	}
	l.scheduleDoubts(now, s.merger.InDoubt())
	l.watchEvents = s.merger.Drain(l.watchEvents[:0])
	for _, w := range s.subscribers {
		w.Put(l.watchEvents)
	}
	clear(l.watchEvents)
	if cap(l.watchEvents) > roomyMap {
		l.watchEvents = nil
	}
	l.joinNext(s)
}

// joinNext turns waiting subscribers into subscribers once a query has returned the state. Each
// gets the state by a separate input, since the state may be large: urgent inputs are processed
// before the next subscriber.
func (l *loop) joinNext(s *subscription) {
	if s.joining || !s.ready() {
		return
	}
	s.joining = true
	l.box.post(false, func(now vote.Now) {
		s.joining = false
		if !s.ready() { // the subscriber has left meanwhile, or there is a gap
			return
		}
		w := s.waiting[0]
		s.waiting = slices.Delete(s.waiting, 0, 1)
		s.subscribers = append(s.subscribers, w)
		state := s.merger.State(now.Wall)[1:] // without the gap at the beginning
		l.node.Spend(len(state))
		w.Put(state)
		l.joinNext(s)
	})
}

// ready reports whether there is a complete state from a query begun after the first waiting
// subscriber.
func (s *subscription) ready() bool {
	if len(s.waiting) == 0 {
		return false
	}
	seen, whole := s.merger.Applied()
	return whole && seen > s.waiting[0].queriesAtStart
}

// requery queries the state of a subscriber's topic once more.
func (l *loop) requery(now vote.Now, w *Subscriber) {
	if s := w.subscription; s != nil && l.subscriptionsByNonce[s.nonce] == s {
		s.merger.Requery()
		l.publish(now, s)
	}
}
