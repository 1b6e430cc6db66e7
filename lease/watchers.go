package lease

import (
	"maps"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// watchers indexes the waiting watches by key or prefix: an event visits only the watches for its
// key.
type watchers struct {
	number  int
	of      map[interest]*audience
	lengths map[int]int // how many prefixes of each length are in of
	by      map[vote.Conn]map[uint64]*watcher
}

// interest is the subject of a watch: a key, or all keys with a prefix.
type interest struct {
	key    vote.Key
	prefix bool
}

// audience lists the watches with the same interest, in order of arrival. Some watches may have
// ended.
type audience struct {
	all   []*watcher
	ended int
}

// waiting returns a waiting watch; nil if the watch doesn't wait.
func (w *watchers) waiting(conn vote.Conn, nonce uint64) *watcher { return w.by[conn][nonce] }

func (w *watchers) add(a *watcher) {
	if w.of == nil {
		w.of, w.lengths = make(map[interest]*audience), make(map[int]int)
		w.by = make(map[vote.Conn]map[uint64]*watcher)
	}
	what := interest{a.key, a.prefix}
	c := w.of[what]
	if c == nil {
		c = &audience{}
		w.of[what] = c
		if a.prefix {
			w.lengths[len(a.key)]++
		}
	}
	c.all = append(c.all, a)
	if w.by[a.conn] == nil {
		w.by[a.conn] = make(map[uint64]*watcher)
	}
	w.by[a.conn][a.nonce] = a
	w.number++
}

// forget removes a waiting watch, and reports whether the watch was waiting.
func (w *watchers) forget(a *watcher) bool {
	of := w.by[a.conn]
	if of[a.nonce] != a {
		return false
	}
	if delete(of, a.nonce); len(of) == 0 {
		delete(w.by, a.conn)
	}
	w.number--
	what := interest{a.key, a.prefix}
	c := w.of[what]
	if c == nil {
		return true // the watch was taken, to be notified
	}
	if c.ended++; c.ended > len(c.all)/2 {
		c.all = slices.DeleteFunc(c.all, func(b *watcher) bool { return w.by[b.conn][b.nonce] != b })
		c.ended = 0
	}
	if len(c.all) == 0 {
		w.drop(what)
	}
	return true
}

func (w *watchers) drop(what interest) {
	delete(w.of, what)
	if what.prefix {
		if w.lengths[len(what.key)]--; w.lengths[len(what.key)] == 0 {
			delete(w.lengths, len(what.key))
		}
	}
}

// take removes the watches for key k from the index, to be notified. Until then they count as
// waiting.
func (w *watchers) take(v *Voter, k vote.Key) (who []*watcher) {
	if w.number == 0 {
		return nil
	}
	take := func(what interest) {
		if c := w.of[what]; c != nil {
			who = append(who, c.all...)
			w.drop(what)
		}
	}
	take(interest{key: k})
	v.spend(len(w.lengths) / scanned)
	for _, n := range slices.Sorted(maps.Keys(w.lengths)) {
		if n <= len(k) {
			take(interest{k[:n], true})
		}
	}
	return who
}

// unlinkWatches forgets the waiting watches of a closed connection. Their interests go on to count
// for a while: each watch has received all its events, and will soon ask again over another
// connection.
func (l *voteLayer) unlinkWatches(conn vote.Conn) {
	n := &l.news
	for _, nonce := range slices.Sorted(maps.Keys(n.watchers.by[conn])) {
		w := n.watchers.by[conn][nonce]
		n.watched.note(w.interest(), l.now.Slow, l.cfg.MaxTTL, w.asked)
		n.watchers.forget(w)
	}
}
