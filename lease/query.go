package lease

import (
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// queryPause is how long the prefix queries of a connection pause after each of their runs, so
// that queries take only a part of a voter's time, although a peer may send any number of them.
const queryPause = time.Millisecond

// query is a query in progress: who holds the keys with a prefix, and who waits for them. Each
// key is shown as of a single moment; different keys may be shown as of different moments.
type query struct {
	nonce   uint64
	prefix  vote.Key
	at      vote.Key // the last key shown
	begun   bool
	permits uint16
	most    int         // how many keys with view entries to show at most; zero for any number
	keys    int         // how many of these were shown so far
	views   []vote.View // not sent yet
	bytes   int         // of the values in views
	all     int         // bytes of the values in all view entries so far
	viewed  int
}

// query answers a query: who holds a key and who waits for it, or the same for all keys with a
// prefix, in order of their names.
func (v *Voter) query(conn vote.Conn, from vote.NodeID, m *vote.Message) {
	qu := query{nonce: m.Nonce, prefix: m.Key}
	if !m.Prefix {
		if k := v.keys.find(m.Key); k != nil {
			v.addViews(conn, &qu, k)
		}
		v.endQueryResult(conn, &qu, false)
		v.askHandOffs(v.keys.find(m.Key), from)
		return
	}
	if after := vote.Key(m.Value); after != "" && after >= qu.prefix {
		qu.at, qu.begun = after, true
	}
	qu.most = int(min(m.Count, vote.MaxQueried))
	if k := v.queries.add(conn, qu); k != nil {
		v.startTask(k)
	}
}

// askHandOffs asks the owner of a key's exclusive lease how often the owner has handed off the
// lease among its callers. The voter asks once, and only if the lease has no value: see
// vote.VersionCounted.
func (l *sessionLayer) askHandOffs(k *key, by vote.NodeID) {
	if k == nil {
		return
	}
	i := slices.IndexFunc(k.votes.all(), func(f *entry) bool { return f.mode == vote.Exclusive && f.held && !f.residual })
	if i < 0 {
		return
	}
	f := k.votes.all()[i]
	if x := f.cold(); x.version == 0 && !x.counts && f.s.isReachable() {
		l.spares.coldFor(f).counts = true
		m := l.push(f.s, vote.KindContended, f.number)
		m.Who, m.Token = by, vote.AskHandOffs
	}
}

func (k *querier) run(v *Voter) (done bool) {
	if k.gone {
		return true
	}
	if !v.needCatalog() {
		k.pause(v)
		return true
	}
	for len(k.queries) > 0 {
		if v.exhausted() {
			k.pause(v)
			return true
		}
		if v.continueQuery(k.conn, &k.queries[0]) {
			k.queries[0] = query{}
			k.queries = k.queries[1:]
		}
	}
	v.queries.finish(k)
	return true
}

// pause resumes the querier after queryPause.
func (k *querier) pause(v *Voter) {
	k.wakeAt = v.now.Slow.Add(queryPause)
	v.queries.pause(k)
	v.at(k.wakeAt)
}

// advanceQueries resumes the queriers after their pauses.
func (v *Voter) advanceQueries() {
	for k := v.queries.wake(v.now.Slow); k != nil; k = v.queries.wake(v.now.Slow) {
		v.postpone(k)
	}
	v.at(v.queries.wakeAt())
}

// continueQuery shows the next key with the prefix, and reports whether the query is complete.
func (l *voteLayer) continueQuery(conn vote.Conn, qu *query) (done bool) {
	l.spend(1)
	from, same := qu.at, false
	if !qu.begun {
		from, same = qu.prefix, true
	}
	name, ok := l.keys.catalog.next(from, same)
	if !ok || !strings.HasPrefix(string(name), string(qu.prefix)) {
		l.endQueryResult(conn, qu, false)
		return true
	}
	before := qu.viewed
	if qu.most > 0 && qu.keys == qu.most || !l.addViews(conn, qu, l.keys.find(name)) {
		l.endQueryResult(conn, qu, true)
		return true
	}
	if qu.at, qu.begun = name, true; qu.viewed > before {
		qu.keys++
	}
	return false
}

// addViews adds the view entries of a key, and reports false if the answer has no room for them.
func (l *sessionLayer) addViews(conn vote.Conn, qu *query, k *key) bool {
	votes, waiting := k.votes.all(), k.firstWaiting()
	if qu.viewed > 0 && (qu.viewed+len(votes)+len(waiting) > vote.MaxQueried || qu.all > vote.MaxQueriedBytes) {
		return false
	}
	l.spend(len(votes) + len(waiting))
	for _, entries := range [...][]*entry{votes, waiting} {
		for _, e := range entries {
			if e.s.isOver() && !e.residual || e.voteLapsed {
				continue // the session is over, but the cleanup task hasn't reached the key
			}
			s := l.viewEntry(e)
			if len(qu.views) == vote.MaxViews || qu.bytes+len(s.Value) > vote.MaxViewBytes {
				chunk := l.send(conn, vote.KindQueryResult)
				chunk.Nonce, chunk.Permits, chunk.Views = qu.nonce, qu.permits, qu.views
				qu.views, qu.bytes = nil, 0
			}
			if qu.views == nil {
				qu.views = make([]vote.View, 0, min(vote.MaxViews, len(votes)+len(waiting)+qu.viewed))
			}
			qu.bytes += len(s.Value)
			qu.all += len(s.Value)
			qu.viewed++
			qu.views = append(qu.views, s)
		}
	}
	qu.permits = k.permits
	return true
}

// endQueryResult ends the answer to a query.
func (l *voteLayer) endQueryResult(conn vote.Conn, qu *query, gap bool) {
	last := l.send(conn, vote.KindQueryResult)
	last.Nonce, last.Permits, last.Views, last.Gap, last.End = qu.nonce, qu.permits, qu.views, gap, true
	last.TTL = max(l.now.Slow.Sub(l.votes.lapsedAt), 0)
}

// firstWaiting returns the first waiting requests of a key, at most viewsMax, in order. Of TryLocks
// that were told there may be more than are looked at.
func (k *key) firstWaiting() []*entry {
	waiting, told := k.queue.all(), k.answeredTries()
	waiting = waiting[:min(len(waiting), viewsMax)]
	if len(told) == 0 {
		return waiting
	}
	waiting = slices.Concat(waiting, told[:min(len(told), viewsMax)])
	slices.SortFunc(waiting, (*entry).compare)
	return waiting[:min(len(waiting), viewsMax)]
}

// viewsMax is how many waiting requests of a key are in an answer. Further requests would tell a
// reader no more than their number.
const viewsMax = 1024
