package quorum

import (
	"cmp"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// Shown is what a majority of the voters sees of a key, or of all keys with a prefix.
type Shown struct {
	Permits uint16
	Sights  []vote.Sight // of each key, in order of the keys' names: holders by token, then who waits or is about to win by stamp. Of the latter the token is the largest that a voter has confirmed or proposed
	Said    []Set        // for each of them, which voters have said that it is a lease that is held
	Cut     bool         // there are more keys than are shown: nothing is known of those beyond Last
	Last    vote.Key
}

// look is a question about a key that is put to all voters: who holds it, or the request to give it back.
type look struct {
	nonce uint64
	ask   vote.Message
	kind  EventKind    // of the answer
	at    vote.Instant // when it ends without an answer
	shown []vote.Message
	asked Set
	ends  Set    // who has answered to the end
	told  uint64 // to how many holders a revocation was passed on, by the voter that knows most
}

// Electorate returns the electorate that this node goes by.
func (q *Requester) Electorate() Electorate { return q.newest }

// Look asks the voters who holds a key and who waits for it. EventShown has the answer, with the number returned, within a TTL.
func (q *Requester) Look(now vote.Now, key vote.Key) uint64 {
	return q.askAll(now, EventShown, vote.Message{Kind: vote.KindLook, Wish: vote.Wish{Key: key}})
}

// LookAll is Look for all keys that begin with a prefix.
func (q *Requester) LookAll(now vote.Now, prefix vote.Key) uint64 {
	return q.askAll(now, EventShown, vote.Message{Kind: vote.KindLook, Wish: vote.Wish{Key: prefix}, Prefix: true})
}

// Revoke has whoever holds a key asked to give it back. EventPassed tells when a majority of the voters has passed that on, within a TTL.
func (q *Requester) Revoke(now vote.Now, key vote.Key, why string) uint64 {
	return q.askAll(now, EventPassed, vote.Message{Kind: vote.KindRevoke, Wish: vote.Wish{Key: key}, Text: why})
}

func (q *Requester) askAll(now vote.Now, kind EventKind, m vote.Message) uint64 {
	q.begin(now)
	q.nonce++
	m.Nonce = q.nonce
	l := &look{nonce: q.nonce, ask: m, kind: kind, at: q.now.Fast.Add(q.cfg.TTL)}
	l.shown = make([]vote.Message, len(q.peers))
	q.looks = append(q.looks, l)
	committee := q.newest.Committee(m.Key)
	for _, p := range q.peers {
		if committee.Has(p.place) && p.reachable() {
			l.asked = l.asked.With(p.place)
			q.urgent(p, &m)
		}
	}
	return q.nonce
}

// lookAgain asks a voter that hasn't answered, wasn't there, or may have forgotten with its connection that it was asked. What a revocation has told to
// holders isn't told twice.
func (q *Requester) lookAgain(p *peer) {
	for _, l := range q.looks {
		if (l.ask.Kind == vote.KindLook || !l.asked.Has(p.place)) && !l.ends.Has(p.place) && q.newest.Committee(l.ask.Key).Has(p.place) {
			l.asked = l.asked.With(p.place)
			l.shown[p.place] = vote.Message{}
			q.urgent(p, &l.ask)
		}
	}
}

// hearShow takes in a voter's answer to a look or a revocation. One that is quiet may have forgotten what it has promised, and so can't
// speak for it.
func (q *Requester) hearShow(p *peer, m *vote.Message) {
	i, ok := slices.BinarySearchFunc(q.looks, m.Nonce, func(l *look, n uint64) int { return cmp.Compare(l.nonce, n) })
	if !ok {
		return
	}
	l := q.looks[i]
	if !p.counts() || (m.Kind == vote.KindPassed) != (l.kind == EventPassed) || l.ends.Has(p.place) ||
		len(l.shown[p.place].Sights)+len(m.Sights) > MaxRequests {
		return
	}
	l.shown[p.place].Sights = append(l.shown[p.place].Sights, m.Sights...)
	if m.Kind == vote.KindShow && !m.End {
		return
	}
	l.shown[p.place].Permits, l.shown[p.place].Gap = m.Permits, m.Gap
	l.told = max(l.told, m.Count)
	l.ends = l.ends.With(p.place)
	q.settleLook(l)
}

// settleLook ends a look or a revocation once a majority has answered.
func (q *Requester) settleLook(l *look) {
	if !q.newest.Decides(l.ends) {
		return
	}
	q.looks = slices.DeleteFunc(q.looks, func(o *look) bool { return o == l })
	if l.kind == EventPassed {
		e := q.tell(EventPassed, 0)
		e.Nonce, e.Count = l.nonce, l.told
		return
	}
	e := q.tell(EventShown, 0)
	e.Nonce, e.Shown = l.nonce, q.merge(l)
}

// endLooks ends those that no majority has answered in time.
func (q *Requester) endLooks() {
	for len(q.looks) > 0 && q.looks[0].at <= q.now.Fast {
		e := q.tell(q.looks[0].kind, 0)
		e.Nonce, e.Wait = q.looks[0].nonce, Wait{WaitNoQuorum, q.census()}
		q.looks = q.looks[1:]
	}
}

// merge makes one picture of what several voters see. A lease is held if one of them has heard so from its owner. Of those whose release some
// haven't heard of, the tokens tell: whatever is older than an exclusive lease is over, and so is an exclusive one that is older than any other.
// Of this node's own callers all are shown; of those that stand in line on another node only the first, since voters know of no other.
func (q *Requester) merge(l *look) *Shown {
	all := &Shown{}
	type id struct {
		owner  vote.SessionID
		number vote.Number
	}
	seen := make(map[id]int)
	said := make(map[id]Set)
	for i := range l.shown {
		all.Permits = max(all.Permits, l.shown[i].Permits)
		if n := len(l.shown[i].Sights); l.shown[i].Gap && n > 0 {
			if last := l.shown[i].Sights[n-1].Key; !all.Cut || last < all.Last {
				all.Cut, all.Last = true, last
			}
		}
		for _, s := range l.shown[i].Sights {
			if s.What == vote.Waiting {
				s.Token = 0 // that of a vote it had
			} else {
				s.Token = s.Token.First()
			}
			if s.What == vote.Holding {
				said[id{s.Owner, s.Number}] = said[id{s.Owner, s.Number}].With(i)
			}
			at, ok := seen[id{s.Owner, s.Number}]
			if !ok {
				seen[id{s.Owner, s.Number}] = len(all.Sights)
				all.Sights = append(all.Sights, s)
				continue
			}
			o := &all.Sights[at]
			if s.Version > o.Version {
				o.Version, o.Value = s.Version, s.Value
			}
			left, since := max(s.Left, o.Left), max(s.For, o.For)
			if s.What == vote.Holding && o.What != vote.Holding {
				version, value := o.Version, o.Value
				*o = s
				o.Version, o.Value, since = version, value, s.For
			}
			if s.What == vote.Waiting && o.What == vote.Promised {
				o.What = s.What
			}
			if o.What == vote.Promised || o.What == vote.Waiting {
				o.Token = max(o.Token, s.Token) // the one that was confirmed, if it was
			}
			o.Left, o.For = left, since
			if s.Mode == vote.Shared {
				o.Mode = vote.Shared
			}
		}
	}
	newest, exclusive := make(map[vote.Key]vote.Token), make(map[vote.Key]vote.Token) // of those that are held
	for _, s := range all.Sights {
		if s.What == vote.Holding {
			newest[s.Key] = max(newest[s.Key], s.Token)
			if s.Mode == vote.Exclusive {
				exclusive[s.Key] = max(exclusive[s.Key], s.Token)
			}
		}
	}
	all.Sights = slices.DeleteFunc(all.Sights, func(s vote.Sight) bool {
		over := s.What == vote.Holding && (s.Token < exclusive[s.Key] || s.Mode == vote.Exclusive && s.Token < newest[s.Key])
		return over || all.Cut && s.Key > all.Last
	})
	if line := q.lines[l.ask.Key]; line != nil && !l.ask.Prefix {
		for _, r := range line.waits.list() {
			all.Sights = append(all.Sights, vote.Sight{
				What: vote.Waiting, Key: r.key, Owner: q.cfg.Self, Number: r.number, Mode: r.mode, Time: r.time, For: max(q.now.Fast.Sub(r.since), 0),
			})
		}
	}
	slices.SortFunc(all.Sights, func(a, b vote.Sight) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(shelf(a.What), shelf(b.What)), cmp.Compare(rank(&a), rank(&b)),
			vote.Stamp{Time: a.Time, Owner: a.Owner, Number: a.Number}.Compare(vote.Stamp{Time: b.Time, Owner: b.Owner, Number: b.Number}))
	})
	for i := range all.Sights {
		all.Said = append(all.Said, said[id{all.Sights[i].Owner, all.Sights[i].Number}])
	}
	return all
}

// rank is where a lease stands among others: in order of tokens. Who waits stands in another order.
func rank(s *vote.Sight) vote.Token {
	if shelf(s.What) == 2 {
		return 0
	}
	return s.Token
}

// shelf is where what is seen stands in the list: holders first, then what rests, then who waits.
func shelf(w vote.What) int {
	switch w {
	case vote.Holding:
		return 0
	case vote.Resting:
		return 1
	}
	return 2
}

// watch is a question that stays: what happens to a key, or to all keys with a prefix.
type watch struct {
	nonce  uint64
	key    vote.Key
	prefix bool
	at     []watched // by place
}

// watched is how far one voter has told.
type watched struct {
	life  vote.Life
	seq   uint64
	later bool // too many watch there: it is to be asked again with the next refresh
}

// Watch has every voter tell what happens to a key, or to all keys that begin with it, from now on. EventNews has what each of them
// tells, as hearsay, with the number returned; Gap says that the voter told nothing before, or forgot what was in between.
func (q *Requester) Watch(now vote.Now, key vote.Key, prefix bool) uint64 {
	q.begin(now)
	q.nonce++
	w := &watch{nonce: q.nonce, key: key, prefix: prefix, at: make([]watched, len(q.peers))}
	q.watches = append(q.watches, w)
	for _, p := range q.peers {
		q.watchAt(w, p)
	}
	return w.nonce
}

// Unwatch ends a watch. A voter that doesn't hear of that has an event to tell nobody, once.
func (q *Requester) Unwatch(now vote.Now, nonce uint64) {
	q.begin(now)
	i, ok := slices.BinarySearchFunc(q.watches, nonce, func(w *watch, n uint64) int { return cmp.Compare(w.nonce, n) })
	if !ok {
		return
	}
	w := q.watches[i]
	q.watches = slices.Delete(q.watches, i, i+1)
	for _, p := range q.peers {
		if p.up() {
			q.urgent(p, &vote.Message{Kind: vote.KindWatch, Nonce: nonce, End: true, Wish: vote.Wish{Key: w.key}, Prefix: w.prefix})
		}
	}
}

func (q *Requester) watchAt(w *watch, p *peer) {
	if p.reachable() { // else it is asked as soon as it is
		at := &w.at[p.place]
		at.later = false
		q.urgent(p, &vote.Message{
			Kind: vote.KindWatch, Nonce: w.nonce, Wish: vote.Wish{Key: w.key}, Prefix: w.prefix, Life: at.life, Seq: at.seq,
		})
	}
}

// watchAgain asks a voter anew that may have forgotten, with its connection, that it was asked.
func (q *Requester) watchAgain(p *peer) {
	for _, w := range q.watches {
		q.watchAt(w, p)
	}
}

// hearNews takes in what a voter tells, and asks for what comes next.
func (q *Requester) hearNews(p *peer, m *vote.Message) {
	i, ok := slices.BinarySearchFunc(q.watches, m.Nonce, func(w *watch, n uint64) int { return cmp.Compare(w.nonce, n) })
	if !ok {
		return
	}
	w := q.watches[i]
	at := &w.at[p.place]
	if at.life == m.Life && m.Seq <= at.seq && !m.Gap {
		at.later = at.later || len(m.Sights) == 0
		return // asked twice, answered twice
	}
	at.life, at.seq = m.Life, m.Seq
	if !m.Gap && len(m.Sights) == 0 {
		at.later = true
		return
	}
	q.watchAt(w, p)
	e := q.tell(EventNews, 0)
	e.Nonce, e.Place, e.Gap, e.Sights = w.nonce, p.place, m.Gap, m.Sights
}

// watchLater asks voters again that had no room for a watch.
func (q *Requester) watchLater() {
	for _, w := range q.watches {
		for _, p := range q.peers {
			if w.at[p.place].later {
				q.watchAt(w, p)
			}
		}
	}
}
