package watchmerge

import (
	"container/list"
	"iter"
	"slices"
	"time"

	"github.com/lockmesh/lockmesh/internal/vote"
)

const (
	// DoubtPause is how long a key stays in doubt before a query, and the pause between two such
	// queries. Reports of several healthy voters about one event are far closer together, unless
	// there are so many events that the reports need several messages.
	DoubtPause = 50 * time.Millisecond

	// queriesToSettle is how many queries in a row, DoubtPause apart, settle a doubt. A single
	// query may show the state from a moment before the reports under way.
	queriesToSettle = 2

	// maxExamined is how many keys in doubt a call of Doubts examines. The next call continues with
	// the other keys, so that no call takes long.
	maxExamined = 1024

	// manyDue is how many of the examined keys must be due for a query of all keys: this query is
	// cheaper than so many queries of single keys.
	manyDue = maxExamined / 2

	// pausesBetweenAll is how many calls of Doubts pass between two queries for all keys. The query
	// for 65,536 keys takes a node up to 80 ms, so the node spends a sixth of the time at most.
	pausesBetweenAll = 10

	// maxDoubts is how many keys may be in doubt before the merger reports a gap: as many as the
	// events that a voter remembers at most. A voter that is further behind has a gap anyway. At
	// about 600 bytes for each key, the keys take 10 MB.
	maxDoubts = 16384
)

// doubtList has the keys in doubt, in the order in which Doubts examines them.
type doubtList struct{ list list.List }

// doubted is an element of a doubtList.
type doubted struct {
	key   vote.Key
	state *keyState
}

func (l *doubtList) len() int { return l.list.Len() }

func (l *doubtList) add(name vote.Key, p *keyState) {
	if p.doubt == nil {
		p.doubt = l.list.PushBack(doubted{name, p})
	}
}

func (l *doubtList) remove(p *keyState) {
	if p.doubt != nil {
		l.list.Remove(p.doubt)
		p.doubt = nil
	}
}

func (l *doubtList) clear() {
	for d := range l.all() {
		d.state.doubt = nil
	}
	l.list.Init()
}

// all ranges over the keys. The loop may move the current key, or remove it.
func (l *doubtList) all() iter.Seq[doubted] {
	return func(yield func(doubted) bool) {
		for e := l.list.Front(); e != nil; {
			next := e.Next()
			if !yield(e.Value.(doubted)) {
				return
			}
			e = next
		}
	}
}

// doubt records whether a key is in doubt: a lease can't be reported yet, or a held lease may be
// over.
func (m *Merger) doubt(name vote.Key, p *keyState) {
	if m.synced && (len(p.pending) > 0 || slices.ContainsFunc(p.held, (*leaseState).mayBeOver)) {
		m.doubts.add(name, p)
	} else {
		m.doubts.remove(p)
	}
}

// mayBeOver reports whether a report or a query speaks against a reported lease.
func (l *leaseState) mayBeOver() bool { return l.end == 0 && (l.endedBy != 0 || l.misses > 0) }

// InDoubt reports whether Doubts is to be called in DoubtPause.
func (m *Merger) InDoubt() bool { return m.doubts.len() > 0 }

// Doubt is a key to query.
type Doubt struct {
	Key   vote.Key
	began uint64 // the value of Merger.reports when the query begins
}

// Doubts returns up to most keys to query now. The caller queries each key on its own, and passes
// the result to AddKeyResult. The keys have been in doubt since the last call of Doubts, and no
// query for them is in progress.
//
// Voters report an event within moments of each other. If a report fails to arrive, a voter has
// missed the event or is unreachable. The key is then queried until queriesToSettle queries in a
// row agree, so that no watch has to be resynced.
//
// A voter sends many events in several messages, so the reports of a burst may also be under way
// for longer. Queries of such keys do no harm. If many keys are due, Doubts returns none and the
// merger wants a query for all keys.
func (m *Merger) Doubts(now vote.Micros, most int) []Doubt {
	m.now = now
	aged := m.reportsAtDoubts
	m.reportsAtDoubts = m.reports
	if m.doubts.len() > maxDoubts {
		m.gap()
		return nil
	}
	due := m.due(aged)
	if m.callsUntilAll > 0 {
		m.callsUntilAll--
	} else if len(due) >= manyDue {
		m.callsUntilAll = pausesBetweenAll
		m.wantQuery()
		return nil
	}
	due = due[:min(len(due), most)]
	doubts := make([]Doubt, len(due))
	for i, d := range due {
		m.doubts.list.MoveToBack(d.state.doubt)
		d.state.querying = true
		doubts[i] = Doubt{d.key, m.reports}
	}
	return doubts
}

// due examines up to maxExamined keys in doubt, and returns the keys to query: the newest report of
// a lease in question is no newer than aged. The other examined keys go to the end of the list.
func (m *Merger) due(aged uint64) []doubted {
	var due []doubted
	left := min(maxExamined, m.doubts.len())
	for d := range m.doubts.all() {
		if left == 0 {
			break
		}
		left--
		p := d.state
		old := func(c *leaseState) bool { return c.lastReport <= aged }
		isDue := slices.ContainsFunc(p.pending, old) ||
			slices.ContainsFunc(p.held, func(c *leaseState) bool { return old(c) && c.mayBeOver() })
		if isDue && !p.querying {
			due = append(due, d)
		} else {
			m.doubts.list.MoveToBack(p.doubt)
		}
	}
	return due
}
