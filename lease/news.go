package lease

import (
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// newsMax is how many events a voter remembers for those who watch. One who comes back later than that has missed some, and is
// told so. At about 200 bytes each this is under a megabyte.
const newsMax = 4096

// watchersMax bounds how many watches may wait at a voter. A node needs one for all that its application watches with one prefix.
const watchersMax = 4096

// news is what has happened at a voter of late. It remembers a bounded number of events, whoever reads them or doesn't; nobody who is slow
// can hold up anyone. Before the first watch comes nothing is remembered.
type news struct {
	on       bool
	seq      uint64 // of the newest event
	events   []vote.Sight
	watchers []watcher // who have heard all there is, in order of arrival
}

// watcher is a watch that waits for something to happen.
type watcher struct {
	conn   vote.Conn
	nonce  uint64
	key    vote.Key
	prefix bool
}

func (w *watcher) wants(k vote.Key) bool {
	if w.prefix {
		return strings.HasPrefix(string(k), string(w.key))
	}
	return k == w.key
}

// report remembers an event, and answers those who wait for it.
func (v *Voter) report(what vote.What, e *entry) {
	n := &v.news
	if !n.on {
		return
	}
	s := v.sight(e)
	s.What = what
	n.seq++
	if len(n.events) >= 2*newsMax {
		n.events = slices.Delete(n.events, 0, newsMax)
	}
	n.events = append(n.events, s)
	n.watchers = slices.DeleteFunc(n.watchers, func(w watcher) bool {
		if !w.wants(s.Key) {
			return false
		}
		v.tellNews(&w, []vote.Sight{s}, n.seq, false)
		return true
	})
}

func (v *Voter) tellNews(w *watcher, sights []vote.Sight, seq uint64, gap bool) {
	v.send(w.conn, vote.Message{Kind: vote.KindNews, Nonce: w.nonce, Life: v.cfg.Self.Life, Seq: seq, Gap: gap, Sights: sights})
}

// watch answers with what has happened since the point that is named; if nothing has, it waits for that.
//
// A watch that comes for the first time, from another life, or after more than is remembered, is told of a gap; what there is to
// see now its owner can ask for.
func (v *Voter) watch(conn vote.Conn, m *vote.Message) {
	n := &v.news
	n.on = true
	w := watcher{conn, m.Nonce, m.Key, m.Prefix}
	first := n.seq - uint64(len(n.events)) // the newest that isn't remembered
	if m.Life != v.cfg.Self.Life || m.Seq < first || m.Seq > n.seq {
		v.tellNews(&w, nil, n.seq, true)
		return
	}
	var found []vote.Sight
	bytes := 0
	for i := m.Seq - first; i < uint64(len(n.events)); i++ {
		s := &n.events[i]
		if !w.wants(s.Key) {
			continue
		}
		if len(found) == vote.MaxSights || bytes+len(s.Value) > vote.MaxSightBytes {
			v.tellNews(&w, found, first+i, false) // the rest when it asks again
			return
		}
		bytes += len(s.Value)
		found = append(found, *s)
	}
	if len(found) > 0 {
		v.tellNews(&w, found, n.seq, false)
		return
	}
	if slices.Contains(n.watchers, w) {
		return // it was asked on this connection before
	}
	if len(n.watchers) >= watchersMax {
		v.tellNews(&n.watchers[0], nil, n.seq, false) // it will ask again
		n.watchers = slices.Delete(n.watchers, 0, 1)
	}
	n.watchers = append(n.watchers, w)
}

// unlink forgets the watches that came over a connection that is gone.
func (n *news) unlink(conn vote.Conn) {
	n.watchers = slices.DeleteFunc(n.watchers, func(w watcher) bool { return w.conn == conn })
}
