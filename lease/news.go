package lease

import (
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// watchersMax bounds how many watches may wait at a voter, at about 100 bytes each. Further watches
// ask again from time to time.
const watchersMax = 1 << 14

// news has the recent events at a voter, and the watches. Before the first watch arrives, no events
// are remembered.
type news struct {
	on bool
	remembered
	watchers watchers // the waiting watches, which have received all their events
	watched  watched
}

// watcher is a watch that waits for an event.
type watcher struct {
	conn   vote.Conn
	nonce  uint64
	key    vote.Key
	prefix bool
	seq    uint64 // of the newest event that the watch has received or doesn't need
	// asked is the point that the watch named, and names again if it asks again. Between asked and
	// seq there is no event for the watch.
	asked uint64
}

func (w *watcher) interest() interest { return interest{w.key, w.prefix} }

func (w *watcher) wants(k vote.Key) bool {
	if w.prefix {
		return strings.HasPrefix(string(k), string(w.key))
	}
	return k == w.key
}

// report publishes an event of a request to the watches.
func (v *Voter) report(what vote.State, e *entry) {
	n := &v.news
	if !n.on {
		return
	}
	s := v.viewEntry(e)
	s.State, s.Token = what, e.token
	if what == vote.Holding {
		s.State = e.granted()
	}
	v.publish(&s)
}

// granted says how a voter knows of a lease: by the voter's own vote, or only from the owner's
// report. A vote for another permit doesn't count as a vote for the lease.
func (e *entry) granted() vote.State {
	if e.serial == 0 || e.leaseSlot != 0 && e.leaseSlot != e.slot {
		return vote.GrantedElsewhere
	}
	return vote.Holding
}

// reportWin reports that a request was granted with a token or a slot other than its vote's at this
// voter: the owner's report of the win crossed the vote.
func (v *Voter) reportWin(e *entry, won *vote.Message) {
	if !v.news.on {
		return
	}
	s := v.viewEntry(e)
	s.State, s.Token, s.Slot, s.For, e.announced = e.granted(), won.Token, e.leaseSlot, 0, true
	v.publish(&s)
}

// publish remembers an event, and answers the watches that wait for the event. If there are many
// watches, answering them takes several runs of a task, and events published in the meantime are
// sent along.
func (v *Voter) publish(s *vote.View) {
	n := &v.news
	n.add(s, v.isWatched)
	if who := n.watchers.take(v, s.Key); len(who) > 0 {
		for _, w := range who {
			n.watched.note(w.interest(), v.now.Slow, v.cfg.MaxTTL, min(w.asked, n.forgotten()))
			w.seq = n.seq - 1 // while it waited, there was no event for it
		}
		v.startTask(&notifying{who})
	}
}

// notifying is the task of answering watches.
type notifying struct{ who []*watcher }

func (t *notifying) run(v *Voter) (done bool) {
	for len(t.who) > 0 {
		if v.exhausted() {
			return false
		}
		w := t.who[0]
		t.who[0], t.who = nil, t.who[1:]
		v.spend(notifyCost)
		if v.news.watchers.forget(w) {
			v.catchUp(w)
		}
	}
	return true
}

// notifyCost is the cost of notifying a watch, in units of [Budget]: a message is built and sent.
const notifyCost = 4

func (l *sessionLayer) sendNews(w *watcher, views []vote.View, seq uint64, gap bool) {
	m := l.send(w.conn, vote.KindEvents)
	m.Nonce, m.Incarnation, m.Seq, m.Gap, m.Views = w.nonce, l.cfg.Self.Incarnation, seq, gap, views
}

// watch answers with the events after the one that the message names (Incarnation and Seq): the
// last event that the watch's owner has; if there are none, the watch waits for an event.
//
// The owner is told of a gap if the watch is new, if another incarnation of the voter sent the
// named event, or if the voter no longer remembers all events after the named one. The owner can
// then query the present state.
func (l *voteLayer) watch(conn vote.Conn, from vote.NodeID, m *vote.Message) {
	n := &l.news
	if old := n.watchers.waiting(conn, m.Nonce); old != nil {
		if !m.End && old.key == m.Key && old.prefix == m.Prefix && m.Incarnation == l.cfg.Self.Incarnation && m.Seq == old.asked {
			return // the same watch already waits on this connection
		}
		n.watchers.forget(old)
	}
	if m.End {
		return
	}
	n.on = true
	l.watches(interest{m.Key, m.Prefix}, from)
	w := &watcher{conn: conn, nonce: m.Nonce, key: m.Key, prefix: m.Prefix, seq: m.Seq, asked: m.Seq}
	if m.Incarnation != l.cfg.Self.Incarnation || m.Seq > n.seq {
		l.sendNews(w, nil, n.seq, true)
		return
	}
	if l.catchUp(w) {
		return
	}
	w.seq = n.seq
	if n.watchers.number >= watchersMax {
		l.sendNews(w, nil, n.seq, false) // the watch asks again later
		return
	}
	n.watchers.add(w)
}

// catchUp sends a watch the events after the watch's last event, as far as they fit into a message;
// the rest follows when the watch asks again. catchUp reports whether a message was sent.
func (l *voteLayer) catchUp(w *watcher) bool {
	n := &l.news
	if w.seq < n.forgotten() && w.seq < max(n.lost, n.watched.since(w.interest(), l.now.Slow)) {
		l.sendNews(w, nil, n.seq, true)
		return true
	}
	older, ring := n.after(w.seq)
	l.spend((len(n.older) - older + int(n.seq+1-ring)) / scanned)
	var found []vote.View
	bytes := 0
	fits := func(s *vote.View) bool {
		if w.wants(s.Key) {
			if len(found) == vote.MaxViews || bytes+len(s.Value) > vote.MaxViewBytes {
				return false
			}
			bytes += len(s.Value)
			found = append(found, *s)
		}
		return true
	}
	for i := range n.older[older:] {
		if e := &n.older[older+i]; !fits(&e.view) {
			l.sendNews(w, found, e.seq-1, false)
			return true
		}
	}
	for seq := ring; seq <= n.seq; seq++ {
		if !fits(n.at(seq)) {
			l.sendNews(w, found, seq-1, false)
			return true
		}
	}
	if len(found) > 0 {
		l.sendNews(w, found, n.seq, false)
	}
	return len(found) > 0
}

// reportWait reports that a request waits, if it does. A TryLock isn't meant to wait, and at a
// quiet voter a request isn't blocked by other requests; neither is reported.
func (v *Voter) reportWait(e *entry) {
	if e.serial == 0 && !e.held && !e.try && v.counting() {
		e.announced = true
		v.report(vote.Waiting, e)
	}
}

// reportEnd reports the end of a lease, of a request reported as waiting, or of a vote that may
// have been part of a lease: once the owner can't answer for the vote, no node knows. A lease with
// a length of its own that outlives its session isn't over yet.
func (v *Voter) reportEnd(e *entry, lapsed bool) {
	switch {
	case !lapsed && (e.held || e.announced):
		v.report(vote.Released, e)
	case e.cold().length > 0 && e.serial != 0 && e.cold().until > v.now.Slow:
		// expireResidual reports the end of the residual vote
	case lapsed && (e.held && !e.voteLapsed || e.announced || e.serial != 0):
		v.report(vote.Ended, e)
	}
}
