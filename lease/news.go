package lease

import (
	"slices"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// newsMax is how many events a voter remembers for those who watch. One who comes back later than that has missed some, and is
// told so. At about 200 bytes each this is under a megabyte.
const newsMax = 4096

// watchersMax bounds how many watches may wait at a voter, at about 100 bytes each. Those beyond ask again from time to time.
const watchersMax = 1 << 14

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
	m := v.say(w.conn, vote.KindNews)
	m.Nonce, m.Life, m.Seq, m.Gap, m.Sights = w.nonce, v.cfg.Self.Life, seq, gap, sights
}

// watch answers with what has happened since the point that is named; if nothing has, it waits for that.
//
// A watch that comes for the first time, from another life, or after more than is remembered, is told of a gap; what there is to
// see now its owner can ask for.
func (v *Voter) watch(conn vote.Conn, m *vote.Message) {
	n := &v.news
	if m.End {
		n.watchers = slices.DeleteFunc(n.watchers, func(w watcher) bool { return w.conn == conn && w.nonce == m.Nonce })
		return
	}
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
		v.tellNews(&w, nil, n.seq, false) // it asks again in a while
		return
	}
	n.watchers = append(n.watchers, w)
}

// reportWait reports that a request waits, if it does. One that only tries doesn't mean to, and at a quiet voter it waits for nobody.
func (v *Voter) reportWait(e *entry) {
	if e.serial == 0 && !e.held && !e.try && v.counting() {
		e.told = true
		v.report(vote.Waiting, e)
	}
}

// reportEnd reports that a lease is over, or a request that was reported to wait, or what may have been a lease: of a vote that its owner
// can't speak for any more nobody knows whether it was part of one. A lease of a length of its own that outlives its session isn't over yet.
func (v *Voter) reportEnd(e *entry, lapsed bool, until vote.Instant) {
	switch {
	case !lapsed && (e.held || e.told):
		v.report(vote.Freed, e)
	case e.rare().length > 0 && e.serial != 0 && until > v.now.Slow:
	case lapsed && (e.held || e.told || e.serial != 0):
		v.report(vote.Ended, e)
	}
}

// unlink forgets the watches that came over a connection that is gone.
func (n *news) unlink(conn vote.Conn) {
	n.watchers = slices.DeleteFunc(n.watchers, func(w watcher) bool { return w.conn == conn })
}
