package quorum

import (
	"cmp"
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
)

// merging is one pass over the complete answers to a query, key by key: the answers are in order of
// the keys' names. A pass makes the result, and decides whether an inspection goes on.
//
// Of each key the answers of several voters are combined. A lease is held if one voter has heard of
// the grant from the owner. Some voters may not have heard of a release; tokens decide then: a
// lease older than an exclusive lease is over, and so is an exclusive lease older than any other
// lease.
type merging struct {
	q            querier
	qu           *query
	result       *QueryResult
	simultaneous Set
	// An inspection's answers leave open who holds the key.
	open bool

	byID map[requestID]int // the requests of the current key, as places in said
	said []evidence
}

// merge combines the answers to a query. open says that the query is an inspection, and that the
// answers leave open who holds the key. For a single key, all of this node's own callers are shown,
// but only the front of another node's local queue: voters know of no other request in the queue.
func (q querier) merge(qu *query) (result *QueryResult, open bool) {
	m := &merging{
		q: q, qu: qu, result: &QueryResult{}, simultaneous: qu.simultaneous(), byID: make(map[requestID]int),
	}
	m.result.Truncated, m.result.Last = qu.truncated()
	most := 0
	for i := range qu.answers {
		if qu.complete.Has(i) {
			m.result.Permits = max(m.result.Permits, qu.answers[i].Permits)
			most = max(most, len(qu.answers[i].Views))
			q.spend(costMerged * len(qu.answers[i].Views))
		}
	}
	m.result.Views = make([]vote.View, 0, most)
	if in := qu.inspection; in != nil {
		q.beginPass(in, m.simultaneous, most)
		m.result.Certain, m.open = in.began, !in.began
	}
	if qu.question.Prefix {
		qu.eachKey(m.addKey)
	} else {
		m.addKey(qu.completeAnswers())
	}
	if in := qu.inspection; in != nil {
		for id, was := range in.first { // in any order
			if was.pass != in.pass { // missing from all answers
				_, _, _, open := q.examine(qu, m.simultaneous, id, nil)
				m.open = m.open || open
			}
		}
	}
	return m.result, m.open
}

// eachKey calls f for each key of the complete answers, in order of the names, with the part of
// each voter's answer by place. Keys beyond the end of an incomplete list are left out.
func (qu *query) eachKey(f func(answers [][]vote.View)) {
	cut, last := qu.truncated()
	left, answers := qu.completeAnswers(), make([][]vote.View, len(qu.answers))
	for {
		var key vote.Key
		found := false
		for _, views := range left {
			if len(views) > 0 && (!found || views[0].Key < key) {
				key, found = views[0].Key, true
			}
		}
		if !found || cut && key > last {
			return
		}
		for i, views := range left {
			n := 0
			for n < len(views) && views[n].Key == key {
				n++
			}
			answers[i], left[i] = views[:n], views[n:]
		}
		f(answers)
	}
}

// completeAnswers returns the complete answers, by place.
func (qu *query) completeAnswers() [][]vote.View {
	all := make([][]vote.View, len(qu.answers))
	for i := range qu.answers {
		if qu.complete.Has(i) {
			all[i] = qu.answers[i].Views
		}
	}
	return all
}

// truncated reports whether some voter has shown only a part of the keys, and the last key up to
// which all voters have shown theirs.
func (qu *query) truncated() (cut bool, last vote.Key) {
	for i := range qu.answers {
		if n := len(qu.answers[i].Views); qu.complete.Has(i) && qu.answers[i].Gap && n > 0 {
			if key := qu.answers[i].Views[n-1].Key; !cut || key < last {
				cut, last = true, key
			}
		}
	}
	return cut, last
}

// sortByKey puts an answer in order of the keys' names. Voters send their answers in this order.
func sortByKey(views []vote.View) {
	byKey := func(a, b vote.View) int { return cmp.Compare(a.Key, b.Key) }
	if !slices.IsSortedFunc(views, byKey) {
		slices.SortStableFunc(views, byKey)
	}
}

// addKey adds a key to the result.
func (m *merging) addKey(answers [][]vote.View) {
	clear(m.byID)
	m.said = m.said[:0]
	from := len(m.result.Views)
	for place, views := range answers {
		for i := range views {
			m.addView(place, &views[i])
		}
	}
	var unsure map[requestID]bool
	if m.qu.inspection != nil {
		unsure = m.conclude(from)
	}
	m.supersede(from)
	if line := m.q.own.queues[m.qu.question.Key]; line != nil && !m.qu.question.Prefix {
		m.addLocalQueue(line)
	}
	key := m.result.Views[from:]
	slices.SortFunc(key, byRank)
	for i := range key {
		m.readVersion(&key[i])
		id := requestID{key[i].Owner, key[i].Number}
		heldBy := Set(0)
		if at, ok := m.byID[id]; ok { // not a caller of the local queue
			heldBy = m.said[at].heldBy
		}
		m.result.HeldBy = append(m.result.HeldBy, heldBy)
		if m.qu.inspection != nil {
			m.result.Unsure = append(m.result.Unsure, unsure[id] && !excludes(key, m.result.Permits, &key[i]))
		}
	}
}

// readVersion makes a view entry say what its version says. A watch knows a lease by the token of
// its first caller, as the voters' events do, and makes its queries plain or for watches.
func (m *merging) readVersion(s *vote.View) {
	version, handOffs := vote.ReadVersion(s.Version)
	s.Version = version
	if in := m.qu.inspection; s.State == vote.Holding && in != nil && !in.heard {
		s.Token += handOffs
	}
}

// addView adds what the voter at a place says about one request of the current key.
func (m *merging) addView(place int, told *vote.View) {
	id := requestID{told.Owner, told.Number}
	at, ok := m.byID[id]
	if !ok {
		at = len(m.said)
		m.byID[id] = at
		m.said = append(m.said, evidence{at: len(m.result.Views)})
	}
	m.said[at].add(place, told)
	s := *told
	if s.State == vote.Waiting {
		s.Token = 0 // the token of an earlier vote
	} else {
		s.Token = s.Token.First()
	}
	if !ok {
		m.result.Views = append(m.result.Views, s)
		return
	}
	o := &m.result.Views[m.said[at].at]
	if s.Version > o.Version {
		o.Version, o.Value = s.Version, s.Value
	}
	left, since := max(s.Left, o.Left), max(s.For, o.For)
	if s.State == vote.Holding && o.State != vote.Holding {
		version, value := o.Version, o.Value
		*o = s
		o.Version, o.Value, since = version, value, s.For
	}
	if s.State == vote.Waiting && o.State == vote.Promised {
		o.State = s.State
	}
	if o.State == vote.Promised || o.State == vote.Waiting {
		o.Token = max(o.Token, s.Token) // the confirmed token, if any
	}
	o.Left, o.For = left, since
	if s.Mode == vote.Shared {
		o.Mode = vote.Shared
	}
}

// conclude decides who holds the current key, as far as an inspection knows. A request seen in the
// first pass gets its last certain state. If no pass was certain, the request stays as merged, the
// result is uncertain, and conclude returns the request: it may be a lease of which no answering
// voter has heard. A request first seen in a later pass, and open there, wasn't held all the time,
// and need not be shown as held.
func (m *merging) conclude(from int) (unsure map[requestID]bool) {
	kept := from
	for i := from; i < len(m.result.Views); i++ {
		s := m.result.Views[i]
		id := requestID{s.Owner, s.Number}
		v := &m.said[m.byID[id]]
		is, last, seen, open := m.q.examine(m.qu, m.simultaneous, id, v)
		m.open = m.open || open
		v.is, v.last = is, last
		if s.State != vote.Delayed {
			// Most voters know of its end, or have yet to hear of the request.
			unknown := !m.q.newest.mayHold(v.known | v.delayed | ^m.simultaneous)
			switch {
			case unknown && v.rest == nil:
				continue
			case unknown:
				s = *v.rest
			case last.verdict == verdictOpen && seen:
				m.result.Certain = false
				if s.State != vote.Holding && v.voted != 0 {
					if unsure == nil {
						unsure = make(map[requestID]bool)
					}
					unsure[id] = true
				}
			case last.verdict == verdictHeld:
				// A voter with a vote for another token hasn't heard which token won.
				s.State, s.Slot, s.Token = vote.Holding, last.slot, last.token.First()
				m.open = m.open || seen && m.awaitsHandOffs(&s)
			case v.rest != nil:
				s = *v.rest // some voters haven't heard of the end, or of the grant
			case s.State == vote.Holding:
				continue // over
			case m.qu.inspection.heard: // a watch tells of no waiting request that may be granted any moment
			default: // votes without a majority
				s.State, s.Token = vote.Waiting, 0
			}
		}
		m.result.Views[kept] = s
		kept++
	}
	clear(m.result.Views[kept:])
	m.result.Views = m.result.Views[:kept]
	return unsure
}

// awaitsHandOffs reports whether the inspection waits for the owner of a lease, who may have handed
// off the lease among its callers, to say how often: see vote.VersionCounted.
func (m *merging) awaitsHandOffs(s *vote.View) bool {
	return s.Mode == vote.Exclusive && s.Version == 0 && !m.qu.question.Prefix && m.q.now.Fast < m.qu.inspection.countUntil
}

// supersede leaves out the leases of the current key that a newer lease contradicts.
//
// If an inspection has seen such a lease held, and its end isn't confirmed, the answers are
// contradictory: the holder may instead have let others in, unknown to the voters whose answers are
// at hand. (Found by worlds with queries.)
func (m *merging) supersede(from int) {
	var newest, exclusive vote.Token // of the held leases
	for i := range m.result.Views[from:] {
		if s := &m.result.Views[from+i]; s.State == vote.Holding {
			newest = max(newest, s.Token)
			if s.Mode == vote.Exclusive {
				exclusive = max(exclusive, s.Token)
			}
		}
	}
	kept := from
	for i := from; i < len(m.result.Views); i++ {
		s := &m.result.Views[i]
		if s.State != vote.Holding || s.Token >= exclusive && (s.Mode != vote.Exclusive || s.Token >= newest) {
			if kept < i {
				m.result.Views[kept] = *s
			}
			kept++
			continue
		}
		m.result.Superseded = append(m.result.Superseded, *s)
		v := &m.said[m.byID[requestID{s.Owner, s.Number}]]
		if m.qu.inspection != nil && v.last.verdict == verdictHeld && v.is.verdict == verdictOpen {
			m.open, m.result.Certain = true, false
		}
	}
	clear(m.result.Views[kept:])
	m.result.Views = m.result.Views[:kept]
}

// addLocalQueue adds this node's callers that wait behind one request of their node.
func (m *merging) addLocalQueue(line *localQueue) {
	for _, r := range line.waiting.list() {
		m.result.Views = append(m.result.Views, vote.View{
			State: vote.Waiting, Key: r.key, Owner: m.q.cfg.Self, Number: r.number, Mode: r.mode, Time: r.time,
			For: max(m.q.now.Fast.Sub(r.since), 0),
		})
	}
}

// excludes reports whether the held leases of a key with so many permits rule out that a request on
// the key is held, too.
func excludes(key []vote.View, permits uint16, s *vote.View) bool {
	held := 0
	for i := range key {
		o := &key[i]
		if o.State != vote.Holding {
			continue
		}
		if o.Mode == vote.Exclusive || s.Mode == vote.Exclusive {
			return true
		}
		held++
	}
	return s.Mode == vote.Permit && held >= int(permits)
}

// byRank orders the views of a key: held leases, residual votes, then promised and waiting
// requests. Leases are in order of their tokens, and requests in order of their stamps.
func byRank(a, b vote.View) int {
	return cmp.Or(
		cmp.Compare(stateRank(a.State), stateRank(b.State)), cmp.Compare(rank(&a), rank(&b)),
		stampOf(&a).Compare(stampOf(&b)),
	)
}

func stampOf(s *vote.View) vote.Stamp {
	return vote.Stamp{Time: s.Time, Owner: s.Owner, Number: s.Number}
}

// rank is the token of a lease. Promised and waiting requests have none.
func rank(s *vote.View) vote.Token {
	if stateRank(s.State) == 2 {
		return 0
	}
	return s.Token
}

// stateRank orders view entries by kind.
func stateRank(w vote.State) int {
	switch w {
	case vote.Holding:
		return 0
	case vote.Delayed:
		return 1
	}
	return 2
}
