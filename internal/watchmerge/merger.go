package watchmerge

import (
	"slices"

	"github.com/lockmesh/lockmesh/internal/vote"
	"github.com/lockmesh/lockmesh/quorum"
)

// Kind is the kind of an event about the watched keys.
type Kind uint8

// The kinds of events.
const (
	// Granted means that a lease was granted; with Current, the lease is held.
	Granted Kind = iota + 1
	// Released means that a lease was released.
	Released
	// Lost means that a lease ended without a release, as far as any voter has reported.
	Lost
	// Waiting means that a request waits.
	Waiting
	// Changed means that a lease has another value or mode. After an upgrade the lease has another
	// token, and Previous is the token before.
	Changed
	// Gap means that events between here and the next Synced may be missing.
	Gap
	// Confirmed means that a majority of the voters has reported a lease as held (confirmed).
	// Applications have no use for this event: a lease is held before its voters know.
	Confirmed
	// Synced means that the state has been reported in full; from here on events follow as they
	// happen.
	Synced
)

// Event is an event of a Merger. The token is the first of the lease's token block.
type Event struct {
	Kind     Kind
	Current  bool // the event happened earlier, and the state still holds
	Previous vote.Token
	At       vote.Micros // when the event happened or the state began, as far as known
	View     vote.View
}

// Merger is the watch merger: each voter reports events about the watched keys on its own, and the
// merger makes one ordered stream of them.
//
// A Merger is a deterministic state machine without a clock. Its inputs are the reports of single
// voters (AddReports) and the views of a majority (AddResult, AddKeyResult); it says when a query
// should begin (WantsQuery), and Drain returns the events.
//
// Why no event is missed without a gap: a voter remembers its events in order, and reports a gap if
// an event was forgotten before this merger received the event. If a lease's node can reach a
// majority M of the voters, all of M are told of the lease, and of its end. Let W (base) be voters
// that have reported without a gap since the query on which the state rests. If W is a majority, W
// and M share a voter. Either the report of this voter arrives, or a gap arrives in its place and
// the voter leaves W. So either a missing event arrives later, or W is no longer a majority, and
// then the merger reports a gap.
//
// A voter that had a gap may have forgotten a lease that came and went, and no query shows such a
// lease. So the voter comes back to W only after a query, and once a majority of W has reported all
// events from before that query: see readmit.
//
// With a gap, all voters are asked anew (WantsRestart), and the merger waits for them to start
// their reports: the reports that a voter still had to send are older than the next state.
//
// A grant is reported once a majority of the voters has reported the lease and voted for it, and
// once all conflicting leases are over; the end is reported once any voter has reported the
// release. Why this order is right: the majorities of two conflicting leases share a voter. The
// voter reports in order, and reported the end of the earlier lease before voting for the later
// lease. If a single report sufficed, a lease could be reported before an earlier lease unknown to
// this voter. When an expected report fails to arrive, the key is in doubt: see Doubts.
//
// The order of a key's leases takes precedence over completeness: if a lease is first reported
// after a newer conflicting lease, the merger leaves the older lease out and reports a gap. This
// happens on a node after a partition, when the node hears about the meantime from one voter after
// the other.
type Merger struct {
	electorate        quorum.Electorate
	electorateChanges int        // how often the electorate has changed
	reporting         quorum.Set // voters known to report events
	gapless           quorum.Set // voters without a gap since the newest query that was answered
	base              quorum.Set // voters that count for completeness; see readmit
	// candidates are voters of gapless to come to base, since a query that began at the instant
	// candidatesAt, and delivered says, by place, up to when a voter has reported all its events.
	candidates   quorum.Set
	candidatesAt vote.Instant
	delivered    [maxPlaces]vote.Instant
	synced       bool
	restart      bool        // the voters are to be asked anew
	omitted      bool        // a lease was left out
	now          vote.Micros // the time of the current call

	keys       map[vote.Key]*keyState
	tombstones ring   // tombstones of finished leases
	released   ring   // released requests without a reported grant
	waiters    ring   // requests reported as waiting
	reports    uint64 // how many reports there have been

	doubts          doubtList
	reportsAtDoubts uint64   // the value of reports at the last call of Doubts
	callsUntilAll   int      // calls of Doubts until one may want a query for all keys again
	unreported      vote.Key // a key with a lease that a query has shown, at the last call of Applied

	querying       bool
	queryWanted    bool       // another query is wanted as soon as the current query is over
	queries        uint64     // the number of the newest query
	reportsAtQuery uint64     // the value of reports when the newest query began
	applied        uint64     // the number of the newest query on which the state rests
	queried        quorum.Set // the value of reporting when the newest query began
	out            []Event
}

// requestRef identifies a request.
type requestRef struct {
	owner  vote.SessionID
	number vote.Number
}

func stampOf(s *vote.View) vote.Stamp {
	return vote.Stamp{Time: s.Time, Owner: s.Owner, Number: s.Number}
}

func refOf(s *vote.View) requestRef { return requestRef{s.Owner, s.Number} }

// waiter is the merged state of a waiting request.
type waiter struct {
	view       vote.View
	since      vote.Micros
	reportedBy quorum.Set // voters with a report of the waiting request
	announced  bool
}

// New returns a Merger without any state.
func New(e quorum.Electorate) *Merger {
	return &Merger{electorate: e, keys: make(map[vote.Key]*keyState), tombstones: ring{max: maxTombstones}, released: ring{max: maxTombstones}, waiters: ring{max: maxWaiters}}
}

// maxPlaces is how many places an electorate has at most: a [quorum.Set] has as many bits.
const maxPlaces = 64

const (
	// maxTombstones is how many finished leases are remembered, so that a late report does not
	// announce a lease anew. A voter remembers no more events, so the reports of two voters that
	// both report without a gap are no further apart.
	maxTombstones = 16384
	// maxWaiters is how many waiting requests are remembered. The voters' reports about one request
	// arrive close together.
	maxWaiters = 4096
)

// Drain moves the pending events to the end of out.
func (m *Merger) Drain(out []Event) []Event {
	out = append(out, m.out...)
	clear(m.out)
	m.out = m.out[:0]
	return out
}

// State returns Gap, the held leases and the known waiting requests, and Synced. Keys are
// in order of names, leases in order of tokens. While the merger has a gap, State returns Gap
// alone. Gap and Synced have the wall-clock time now.
func (m *Merger) State(now vote.Micros) []Event {
	m.now = now
	return m.state([]Event{{Kind: Gap, At: now}})
}

func (m *Merger) state(out []Event) []Event {
	if !m.synced {
		return out // Synced comes with the state, as soon as the state is known
	}
	for _, name := range m.names() {
		p := m.keys[name]
		for _, c := range p.held {
			out = append(out, Event{Kind: Granted, Current: true, At: c.since, View: c.view})
			if c.confirmed {
				out = append(out, Event{Kind: Confirmed, Current: true, At: c.since, View: c.view})
			}
		}
		var waiting []*waiter
		for _, w := range p.waiting {
			if w.announced {
				waiting = append(waiting, w)
			}
		}
		slices.SortFunc(waiting, func(a, b *waiter) int { return stampOf(&a.view).Compare(stampOf(&b.view)) })
		for _, w := range waiting {
			out = append(out, Event{Kind: Waiting, Current: true, At: w.since, View: w.view})
		}
	}
	return append(out, Event{Kind: Synced, At: m.now})
}

// names returns the known keys in order, so that nothing depends on the order of a map.
func (m *Merger) names() []vote.Key {
	names := make([]vote.Key, 0, len(m.keys))
	for name := range m.keys {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// each calls f for each known key, in order. A call of f may forget keys further on: adding a
// tombstone drops the oldest tombstone.
func (m *Merger) each(f func(name vote.Key, p *keyState)) {
	for _, name := range m.names() {
		if p := m.keys[name]; p != nil {
			f(name, p)
		}
	}
}

// AddReports takes in the reports of the voter at a place. The wall-clock time now is only passed
// on in events. With these reports the voter has reported all its events from before the instant
// asOf; zero if that isn't known.
func (m *Merger) AddReports(now vote.Micros, place int, gap bool, views []vote.View, asOf vote.Instant) {
	m.now = now
	if gap {
		m.voterGap(place)
	}
	for i := range views {
		s := views[i]
		s.Token = s.Token.First()
		m.addReport(place, &s)
	}
	m.reportGap()
	m.deliver(place, asOf)
	m.readmit()
}

// deliver notes that a voter has reported all its events from before an instant.
func (m *Merger) deliver(place int, asOf vote.Instant) {
	m.delivered[place] = max(m.delivered[place], asOf)
}

// readmit has the candidates count for completeness again once a majority of the voters that count
// has reported all events from before the candidates' query. Then an event from before the query
// was reported by this majority, and the candidates report all later events.
func (m *Merger) readmit() {
	if m.candidates == 0 {
		return
	}
	var whole quorum.Set
	for place, at := range m.delivered {
		if m.base.Has(place) && at >= m.candidatesAt {
			whole = whole.With(place)
		}
	}
	if m.electorate.Decides(whole) {
		m.base, m.candidates = m.base|m.candidates, 0
	}
}

// reportGap reports a gap if a lease was left out.
func (m *Merger) reportGap() {
	if m.omitted && m.synced {
		m.out = m.state(append(m.out, Event{Kind: Gap, At: m.now}))
	}
	m.omitted = false
}

// voterGap handles a voter's report of a gap, and the first report of a voter.
func (m *Merger) voterGap(place int) {
	m.reporting, m.gapless, m.queried = m.reporting.With(place), m.gapless.Without(place), m.queried.Without(place)
	m.base, m.candidates, m.delivered[place] = m.base.Without(place), m.candidates.Without(place), 0
	for _, p := range m.keys {
		for _, c := range slices.Concat(p.held, p.pending) {
			// The voter may have restarted.
			c.reportedBy, c.votedBy, c.endedBy = c.reportedBy.Without(place), c.votedBy.Without(place), c.endedBy.Without(place)
		}
	}
	m.gapUnlessWhole()
}

// gapUnlessWhole reports a gap, once, if no majority has reported without a gap. Otherwise a query
// follows, for the events of the other voters.
func (m *Merger) gapUnlessWhole() {
	switch {
	case m.synced && !m.electorate.Decides(m.base):
		m.gap()
	case m.synced || m.electorate.Decides(m.reporting):
		m.wantQuery()
	}
}

// gap reports a gap, once, and has the voters asked anew.
func (m *Merger) gap() {
	if !m.synced {
		return
	}
	m.synced, m.restart, m.querying, m.queryWanted = false, true, false, false
	m.base, m.candidates, m.gapless, m.queried, m.reporting = 0, 0, 0, 0, 0
	m.doubts.clear()
	m.out = append(m.out, Event{Kind: Gap, At: m.now})
	for _, p := range m.keys {
		p.newest = [4]vote.Token{} // voters that forgot may begin anew with lower tokens
	}
}

// WantsRestart reports whether the node is to end its watch at the voters, and to begin the watch
// anew: after a gap. Reports of the earlier watch, and the result of the query under way, must not
// be passed to the merger any more.
func (m *Merger) WantsRestart() bool {
	wanted := m.restart
	m.restart = false
	return wanted
}

func (m *Merger) wantQuery() { m.queryWanted = true }

// Queries returns how many queries have begun.
func (m *Merger) Queries() uint64 { return m.queries }

// Applied returns the number of the newest query that the merger has taken in, the first being 1,
// and whether State is complete.
func (m *Merger) Applied() (look uint64, whole bool) {
	if !m.synced {
		return m.applied, false
	}
	shown := func(p *keyState) bool { // by a query, but not reported yet
		return slices.ContainsFunc(p.pending, func(c *leaseState) bool { return c.shownHeld })
	}
	// The key found at the last call usually decides the next calls as well, without a search.
	if p := m.keys[m.unreported]; p != nil && p.doubt != nil && shown(p) {
		return m.applied, false
	}
	for d := range m.doubts.all() {
		if shown(d.state) {
			m.unreported = d.key
			return m.applied, false
		}
	}
	return m.applied, true
}

// Synced reports whether the state has been reported in full, without a gap since.
func (m *Merger) Synced() bool { return m.synced }

// Requery makes the merger want a query, although nothing is known to be missing.
func (m *Merger) Requery() { m.wantQuery() }

// WantsQuery reports whether a query for the watched keys is to begin now. The merger assumes that
// the query begins, and AddResult follows.
func (m *Merger) WantsQuery() bool {
	if m.querying || !m.queryWanted {
		return false
	}
	m.querying, m.queryWanted = true, false
	m.queries++
	m.queried, m.reportsAtQuery = m.reporting, m.reports
	return true
}

// AddResult takes in the query's view; nil if the query failed.
func (m *Merger) AddResult(now vote.Micros, shown *quorum.QueryResult) {
	m.now = now
	m.querying = false
	if shown == nil {
		m.queryWanted = m.electorate.Decides(m.reporting)
		return
	}
	m.gapless |= m.queried
	// An earlier query of the same candidates is kept, so that many queries don't keep them
	// waiting.
	if fresh := m.queried &^ m.base; fresh&^m.candidates != 0 {
		m.candidates, m.candidatesAt = fresh, shown.Began
	}
	if !m.electorate.Decides(m.gapless) {
		m.queryWanted = m.electorate.Decides(m.reporting)
		return
	}
	m.applied = m.queries
	if m.synced {
		m.compare(shown)
		m.reportGap()
		m.readmit()
		return
	}
	m.rebase(shown)
	m.synced, m.omitted, m.base, m.candidates = true, false, m.gapless, 0
	m.out = m.state(m.out)
	m.each(m.advance)
}

// addReport takes in a report about one request. The token is the first of its block.
func (m *Merger) addReport(place int, s *vote.View) {
	m.reports++
	if m.tombstones.has(refOf(s)) {
		return
	}
	p := m.keys[s.Key]
	switch s.State {
	case vote.Waiting:
		m.addWaiting(place, p, s)
	case vote.Holding, vote.GrantedElsewhere, vote.Changed:
		p = m.keyState(s.Key)
		m.addHeld(place, p, s)
		m.advance(s.Key, p)
	case vote.Released, vote.Ended:
		m.addEnd(place, p, s)
	}
}

// keyState returns the state of a key, and creates the state if need be.
func (m *Merger) keyState(name vote.Key) *keyState {
	p := m.keys[name]
	if p == nil {
		p = &keyState{}
		m.keys[name] = p
	}
	return p
}

// addWaiting reports a waiting request, once: when the voters without a report of this waiting
// request are no majority, or when a majority's view shows the request.
func (m *Merger) addWaiting(place int, p *keyState, s *vote.View) {
	id := refOf(s)
	var w *waiter
	if p != nil {
		if p.find(id) != nil {
			return
		}
		w = p.waiting[id]
	}
	if w == nil {
		if m.waiters.has(id) {
			return // the request no longer waits
		}
		p = m.keyState(s.Key)
		if p.waiting == nil {
			p.waiting = make(map[requestRef]*waiter)
		}
		w = &waiter{view: *s, since: m.sinceOf(s)}
		p.waiting[id] = w
		if old, ok := m.waiters.put(s.Key, id); ok {
			m.forgetWaiter(old)
		}
	}
	if place != noVoter {
		w.reportedBy = w.reportedBy.With(place)
		if e := m.electorate; e.Decides(e.All() &^ w.reportedBy) {
			return // a majority may be about to grant the request
		}
	}
	if w.announced {
		return
	}
	w.announced = true
	m.emit(Event{Kind: Waiting, At: w.since, View: *s})
}

// sinceOf returns since when a report has been true, on this node's clock.
func (m *Merger) sinceOf(s *vote.View) vote.Micros {
	return m.now - vote.Micros(s.For.Microseconds())
}

func (m *Merger) forgetWaiter(old tombstone) {
	if p := m.keys[old.key]; p != nil {
		delete(p.waiting, old.id)
		m.forget(old.key, p)
	}
}

// addHeld takes in the report of a held lease.
func (m *Merger) addHeld(place int, p *keyState, s *vote.View) {
	c := p.find(refOf(s))
	if c == nil {
		if c = m.newLease(p, s); c == nil {
			return
		}
	}
	c.lastReport, c.misses = m.reports, 0
	if c.end == Lost { // not reported yet, and resynced by the owner meanwhile
		c.end = 0
	}
	c.reportedBy, c.endedBy = c.reportedBy.With(place), c.endedBy.Without(place)
	if s.State == vote.Holding {
		c.votedBy = c.votedBy.With(place)
	}
	m.update(p, c, s)
}

// update updates a known lease from a report or a view.
func (m *Merger) update(p *keyState, c *leaseState, s *vote.View) {
	m.confirm(p, c)
	held, changed := slices.Contains(p.held, c), false
	if s.Version > c.view.Version {
		c.view.Version, c.view.Value, changed = s.Version, s.Value, true
	}
	// The opposite change would be another request.
	if s.Mode == vote.Shared && c.view.Mode == vote.Exclusive {
		c.view.Mode, changed = vote.Shared, true
		if held {
			p.newest[vote.Shared] = max(p.newest[vote.Shared], c.view.Token)
		}
	}
	if changed && held {
		m.emit(Event{Kind: Changed, At: m.now, View: c.view})
	}
}

// newLease creates the state of a lease at its first report; nil if the report comes too late.
// During a gap no report is too late: the lease with the larger token may be over, and the voters
// may have forgotten its token. Then the view that ends the gap decides. (Found by worlds with
// watches where the electorate changes.)
func (m *Merger) newLease(p *keyState, s *vote.View) *leaseState {
	id := refOf(s)
	delete(p.waiting, id)
	if m.synced && p.late(s) {
		m.addTombstone(s.Key, p, id)
		m.omitted = true
		return nil
	}
	c := &leaseState{view: *s, since: m.sinceOf(s), lastReport: m.reports, changesAtStart: m.electorateChanges}
	c.view.State = vote.Holding
	if m.released.has(id) {
		c.end = Released
	}
	p.pending = insert(p.pending, c)
	return c
}

// confirm reports a lease as confirmed, if its grant was reported and a majority has reported the
// lease as held.
func (m *Merger) confirm(p *keyState, c *leaseState) {
	if !c.confirmed && m.electorate.Decides(c.reportedBy) && slices.Contains(p.held, c) {
		c.confirmed = true
		m.emit(Event{Kind: Confirmed, At: m.now, View: c.view})
	}
}

// addEnd takes in a voter's report of the end of a lease.
func (m *Merger) addEnd(place int, p *keyState, s *vote.View) {
	id := refOf(s)
	var c *leaseState
	if p != nil {
		delete(p.waiting, id)
		c = p.find(id)
	}
	switch {
	case c == nil && s.State == vote.Released && m.synced: // reports of the grant, if any, are late
		if !m.released.has(id) { // another voter may have reported the release before
			m.released.put(s.Key, id)
		}
		if p != nil {
			m.forget(s.Key, p)
		}
		return
	case c == nil && s.State == vote.Released:
		m.addTombstone(s.Key, m.keyState(s.Key), id)
		return
	// An earlier vote for the same request ended, before the grant.
	case c == nil || s.State == vote.Ended && s.Token < c.view.Token:
		return
	case s.State == vote.Released:
		c.end = Released
	default:
		c.endedBy, c.hits = c.endedBy.With(place), 0
		// The lease is over once the remaining voters can't be a majority. A lease granted under an
		// earlier config epoch may have a majority of the earlier electorate only: then queries
		// settle the matter.
		if e := m.electorate; c.end == 0 && c.changesAtStart == m.electorateChanges && !e.MayGoOn(e.All()&^c.endedBy) {
			c.end = Lost
		}
	}
	c.lastReport = m.reports
	m.advance(s.Key, p)
}

// advance reports the ends of a key's leases, and the coming grants without a conflict.
func (m *Merger) advance(name vote.Key, p *keyState) {
	for {
		if i := slices.IndexFunc(p.held, p.hasEnded); i >= 0 {
			m.reportEnd(name, p, p.held[i])
		} else if i := m.nextGrant(p); i >= 0 {
			m.grant(name, p, p.pending[i])
		} else {
			break
		}
	}
	m.doubt(name, p)
	m.forget(name, p)
}

// nextGrant returns the index of the first coming grant to report, negative if there is none: the
// grant is known to be a lease, conflicts with no held lease, and neither conflicts with nor
// upgrades an earlier coming grant.
func (m *Merger) nextGrant(p *keyState) int {
	for i, c := range p.pending {
		if (c.sure || m.electorate.Decides(c.votedBy)) &&
			!slices.ContainsFunc(p.pending[:i], func(o *leaseState) bool { return c.conflicts(o) || c.upgrades(o) }) &&
			!slices.ContainsFunc(p.held, c.conflicts) {
			return i
		}
	}
	return -1
}

// reportEnd reports the end of a lease.
func (m *Merger) reportEnd(name vote.Key, p *keyState, c *leaseState) {
	p.held = without(p.held, c)
	m.addTombstone(name, p, refOf(&c.view))
	m.emit(Event{Kind: c.end, At: m.now, View: c.view})
}

// grant reports a coming lease as held, or as the replacement of another lease for an upgrade.
func (m *Merger) grant(name vote.Key, p *keyState, c *leaseState) {
	p.pending = without(p.pending, c)
	was := vote.Token(0)
	if i := slices.IndexFunc(p.held, c.upgrades); i >= 0 {
		h := p.held[i]
		p.held = without(p.held, h)
		m.addTombstone(name, p, refOf(&h.view))
		was = h.view.Token
	}
	p.held = insert(p.held, c)
	p.newest[c.view.Mode] = max(p.newest[c.view.Mode], c.view.Token)
	if was != 0 {
		m.emit(Event{Kind: Changed, Previous: was, At: m.now, View: c.view})
	} else {
		m.emit(Event{Kind: Granted, At: c.since, View: c.view})
	}
	m.confirm(p, c)
}

// emit appends an event, unless the initial state has yet to be reported.
func (m *Merger) emit(e Event) {
	if m.synced {
		m.out = append(m.out, e)
	}
}
