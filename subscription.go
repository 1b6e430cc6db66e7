package lockmesh

import (
	"cmp"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/internal/watchmerge"
	"github.com/lockmesh/lockmesh/quorum"
)

// subscription is the shared subscription to a key, or to all keys with a prefix, for all watches of this
// node with this topic: the voters send each event to the node once, and are queried once, however
// many watches read the story. The story's watch merger (Tale) merges the voters' reports.
type subscription struct {
	topic   topic
	nonce   uint64 // identifies the node's watch
	merger  *watchmerge.Merger
	readers []*Watch
	// watches waiting, in order, for a query begun after their own begin, so that the initial state
	// is as new as they are
	waiting []*Watch
	joining bool // a watch of coming is about to join the readers
}

// topic is the subject of a watch.
type topic struct {
	key    vote.Key
	prefix bool
}

// subscribe attaches a watch to the story of its topic.
func (l *loop) subscribe(now vote.Now, w *Watch) {
	about := topic{vote.Key(w.key), w.prefix}
	s := l.subscriptions[about]
	if s == nil {
		s = &subscription{topic: about, merger: watchmerge.New(l.node.Electorate()), readers: []*Watch{w}}
		s.nonce = l.node.Watch(now, about.key, about.prefix)
		l.subscriptions[about], l.subscriptionsByNonce[s.nonce] = s, s
	} else {
		w.queriesAtStart = s.merger.Queries()
		s.waiting = append(s.waiting, w)
		s.merger.Requery()
		l.publish(now, s)
	}
	w.subscription = s
	l.watches++
}

// unwatch ends a watch.
func (l *loop) unwatch(now vote.Now, w *Watch) {
	s := w.subscription
	is := func(o *Watch) bool { return o == w }
	s.readers, s.waiting = slices.DeleteFunc(s.readers, is), slices.DeleteFunc(s.waiting, is)
	l.watches--
	if len(s.readers)+len(s.waiting) == 0 {
		l.node.Unwatch(now, s.nonce)
		delete(l.subscriptionsByNonce, s.nonce)
		delete(l.subscriptions, s.topic)
	}
}

func (l *loop) receiveNews(now vote.Now, e *quorum.Event) {
	if s := l.subscriptionsByNonce[e.Nonce]; s != nil {
		s.merger.AddReports(now.Wall, e.Place, e.Gap, e.Views)
		l.publish(now, s)
	}
}

// watchQuery is the purpose of a query: the state of a whole story, or of a key in doubt.
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
	default:
		s.merger.AddResult(now.Wall, e.Result)
	}
	l.publish(now, p.subscription)
}

// maxDoubts is how many keys in doubt are queried in a [watchmerge.DoubtPause], for all stories
// together.
const maxDoubts = 64

// queryDoubts queries the keys in doubt when their time has come. It begins after the story at which it
// ended the last time.
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
			l.watchQueries[l.node.Look(now, doubts[i].Key)] = watchQuery{subscription: s, doubt: &doubts[i]}
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

// publish passes the news of a story to its readers, and queries the voters if the story's watch
// merger wants this.
func (l *loop) publish(now vote.Now, s *subscription) {
	if s.merger.WantsQuery() {
		var nonce uint64
		if s.topic.prefix {
			nonce = l.node.LookAll(now, s.topic.key)
		} else {
			nonce = l.node.Look(now, s.topic.key)
		}
		l.watchQueries[nonce] = watchQuery{subscription: s}
	}
	l.scheduleDoubts(now, s.merger.InDoubt())
	l.watchEvents = s.merger.Drain(l.watchEvents[:0])
	for _, w := range s.readers {
		w.put(l.watchEvents)
	}
	clear(l.watchEvents)
	if cap(l.watchEvents) > roomyMap {
		l.watchEvents = nil
	}
	l.joinNext(s)
}

// joinNext turns waiting watches into readers once a query has returned the state. Each watch gets the
// state by a separate input, since the state may be large: urgent inputs are processed before the
// next watch.
func (l *loop) joinNext(s *subscription) {
	if s.joining || !s.ready() {
		return
	}
	s.joining = true
	l.box.post(false, func(vote.Now) {
		s.joining = false
		if !s.ready() { // the watch has ended meanwhile, or there is a gap
			return
		}
		w := s.waiting[0]
		s.waiting = slices.Delete(s.waiting, 0, 1)
		s.readers = append(s.readers, w)
		state := s.merger.State()[1:] // without the gap at the beginning
		l.node.Spend(len(state))
		w.put(state)
		l.joinNext(s)
	})
}

// ready reports whether there is a complete state from a query begun after the first waiting watch.
func (s *subscription) ready() bool {
	if len(s.waiting) == 0 {
		return false
	}
	seen, whole := s.merger.Applied()
	return whole && seen > s.waiting[0].queriesAtStart
}

// requery queries the state of a watch's story once more.
func (l *loop) requery(now vote.Now, w *Watch) {
	if s := w.subscription; s != nil && l.subscriptionsByNonce[s.nonce] == s {
		s.merger.Requery()
		l.publish(now, s)
	}
}
